//! From `--family` and the prior flags to a family with its prior.

use anabranch::batch::Batch;
use anabranch::family::{
    AnyFamily, Bernoulli, Block, Categorical, Diagonal, Family, Frame, Gaussian, Multinomial, NormalGamma,
    NormalInverseWishart, Poisson, Product, Spherical, SphericalPrior,
};
use anabranch::infer::PriorChoice;
use anabranch_io::vector::parse_vector;
use anabranch_io::{ALL_COLUMNS, Schema};

use crate::args::PriorArgs;
use crate::failure::Failure;
use crate::request::belongs;

/// A family by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Gaussian,
    Diagonal,
    Spherical,
    Bernoulli,
    Categorical,
    Poisson,
    Multinomial,
}

const KINDS: [(&str, Kind); 7] = [
    ("gaussian", Kind::Gaussian),
    ("diagonal", Kind::Diagonal),
    ("spherical", Kind::Spherical),
    ("bernoulli", Kind::Bernoulli),
    ("categorical", Kind::Categorical),
    ("poisson", Kind::Poisson),
    ("multinomial", Kind::Multinomial),
];

/// What `--resolution` says when the data say it.
const AUTO: &str = "auto";

impl Kind {
    fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether a prior flag means something for components of this kind.
    fn looks_at(self, prior_flag: &str) -> bool {
        match self {
            Kind::Gaussian | Kind::Diagonal | Kind::Spherical => true,
            Kind::Bernoulli | Kind::Poisson => matches!(prior_flag, "--prior-mean" | "--prior-kappa"),
            Kind::Categorical | Kind::Multinomial => {
                matches!(prior_flag, "--prior-kappa" | "--prior-scale")
            }
        }
    }
}

/// One part of `--family`: a kind, and its columns (none: all that no other part names).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    kind: Kind,
    columns: Vec<String>,
}

/// What `--family` and `--missing-informative` say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilySpec {
    parts: Vec<Part>,
    /// Columns of which it is learned whether values are missing.
    informative: Option<String>,
}

impl FamilySpec {
    /// Reads `gaussian`, `gaussian:a,b+categorical:c`, or `gaussian+categorical:c`, where one part takes what the others leave.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let parts: Vec<Part> = text.split('+').map(parse_part).collect::<Result<_, _>>()?;
        let rest: Vec<&Part> = parts.iter().filter(|part| part.columns.is_empty()).collect();
        let refused = |why: &str| {
            let example = "for example --family gaussian+categorical:colour, or gaussian:height,weight+categorical:colour";
            Err(Failure::input(format!("--family {text}: {why}")).with_hint(example))
        };
        match rest.as_slice() {
            [_, _, ..] => {
                refused("one part alone may leave its columns out, and takes all that the others do not name")
            }
            // Which cells are strings must be known before the first row is read.
            [part] if parts.len() > 1 && part.kind == Kind::Categorical => {
                refused("categorical columns are named, so that their strings can be read")
            }
            _ => Ok(Self { parts, informative: None }),
        }
    }

    /// The same with whether values of these columns, or of [`ALL_COLUMNS`], are missing.
    pub fn with_absence(self, columns: Option<&str>) -> Result<Self, Failure> {
        if columns.is_some() && self.parts.iter().any(|part| part.kind == Kind::Multinomial) {
            let message = "--missing-informative does not go with --family multinomial";
            return Err(Failure::input(message)
                .with_hint("the counts of a row share their total: rows with missing ones are refused"));
        }
        Ok(Self { informative: columns.map(str::to_owned), ..self })
    }

    /// The columns of which it is learned whether values are missing.
    fn informative(&self, schema: &Schema) -> Result<Option<Vec<usize>>, Failure> {
        let Some(columns) = &self.informative else { return Ok(None) };
        if columns == ALL_COLUMNS {
            return Ok(Some((0..schema.dimensions()).collect()));
        }
        let named = |error: Failure| error.naming("--missing-informative");
        let places: Vec<usize> = columns
            .split(',')
            .map(|name| position(schema, name.trim()).map_err(named))
            .collect::<Result<_, _>>()?;
        match (1..places.len()).find(|ix| places[..*ix].contains(&places[*ix])) {
            Some(ix) => {
                let name = &schema.columns[places[ix]].name;
                Err(named(Failure::input(format!("column `{name}` is named twice"))))
            }
            None => Ok(Some(places)),
        }
    }

    /// Columns whose cells are labels of categories, as the reader wants them.
    pub fn categorical_columns(&self) -> Vec<String> {
        let categorical = self.parts.iter().filter(|part| part.kind == Kind::Categorical);
        categorical
            .flat_map(|part| match part.columns.is_empty() {
                true => vec![ALL_COLUMNS.to_owned()],
                false => part.columns.clone(),
            })
            .collect()
    }

    /// The columns that the parts name, in order; `None` when a part takes all the others.
    pub fn columns(&self) -> Option<Vec<String>> {
        let all_named = self.parts.iter().all(|part| !part.columns.is_empty());
        all_named.then(|| self.parts.iter().flat_map(|part| part.columns.clone()).collect())
    }

    /// The places of a part's columns.
    fn places(&self, part: &Part, schema: &Schema) -> Result<Vec<usize>, Failure> {
        let of = |part: &Part| -> Result<Vec<usize>, Failure> {
            part.columns.iter().map(|name| position(schema, name)).collect()
        };
        if !part.columns.is_empty() {
            return of(part);
        }
        let named = self.parts.iter().map(of).collect::<Result<Vec<_>, _>>()?.concat();
        let rest: Vec<usize> = (0..schema.dimensions()).filter(|column| !named.contains(column)).collect();
        match rest.is_empty() {
            true => Err(Failure::input(format!("--family: no column is left for {}", part.kind.name()))
                .with_hint("the other parts name every column: leave that part out")),
            false => Ok(rest),
        }
    }

    /// Refuses prior flags that do not go together or not with these parts.
    pub fn check_prior(&self, prior: &PriorArgs) -> Result<(), Failure> {
        let real = |part: &Part| matches!(part.kind, Kind::Gaussian | Kind::Diagonal | Kind::Spherical);
        if prior.resolution.is_some() && !self.parts.iter().any(real) {
            return Err(Failure::input("--resolution goes with gaussian, diagonal and spherical columns")
                .with_hint("counts and names are exact: leave it out"));
        }
        let given = prior.given();
        let Some(first) = given.first() else { return Ok(()) };
        if prior.prior.is_some() {
            return Err(Failure::input(format!("--prior auto and {first} exclude each other")));
        }
        let [part] = self.parts.as_slice() else {
            return Err(Failure::input(format!("{first} goes with one family, not with several"))
                .with_hint("leave it out: the prior of each part is taken from the data"));
        };
        for flag in &given {
            let families: Vec<&str> =
                KINDS.iter().filter(|(_, kind)| kind.looks_at(flag)).map(|(name, _)| *name).collect();
            if !part.kind.looks_at(flag) {
                return Err(Failure::input(belongs(flag, "--family", &families, part.kind.name())));
            }
        }
        match given[..] {
            ["--prior-kappa", "--prior-scale"] if !part.kind.looks_at("--prior-mean") => {
                Err(Failure::input(format!(
                    "--prior-kappa and --prior-scale exclude each other with --family {}",
                    part.kind.name()
                ))
                .with_hint("both are the pseudo-count of a cell"))
            }
            _ => Ok(()),
        }
    }

    /// The family, with the prior of the flags or one taken from the first rows.
    pub fn build(&self, first: &Batch, schema: &Schema, prior: &PriorArgs) -> Result<AnyFamily, Failure> {
        let family = match self.parts.as_slice() {
            [part] if prior.choice() == PriorChoice::Given => with_prior(part.kind, first, prior),
            [part] => from_rows(part.kind, first),
            _ => self.product(schema, |kind, columns| {
                let values = first.rows().flat_map(|row| columns.iter().map(|column| row[*column])).collect();
                from_rows(kind, &Batch::with_missing(columns.len(), values).map_err(Failure::input)?)
            }),
        }?;
        let family = match prior.resolution.as_deref() {
            None | Some(AUTO) => family,
            Some(text) => with_resolution(family, text, first)?,
        };
        match self.informative(schema)? {
            None => Ok(family),
            Some(columns) => Ok(family.with_absence(columns, first)?),
        }
    }

    /// Refuses covariances of more columns than memory holds: a model needs several components, and several copies of each.
    pub fn check_size(&self, schema: &Schema, max_memory: u64) -> Result<(), Failure> {
        const COPIES: u64 = 8;
        let full = self.parts.iter().filter(|part| part.kind == Kind::Gaussian);
        let places = full.map(|part| self.places(part, schema)).collect::<Result<Vec<_>, _>>()?;
        let Some(columns) = places.iter().map(|columns| columns.len() as u64).max() else { return Ok(()) };
        let bytes = 8 * (1 + columns + columns * (columns + 1) / 2);
        match bytes.saturating_mul(COPIES) > max_memory {
            false => Ok(()),
            true => Err(Failure::input(format!(
                "the covariances of {columns} columns take {} for each component",
                shown_bytes(bytes)
            ))
            .with_hint(
                "take --family diagonal, fewer columns with --columns, or allow more with --max-memory",
            )),
        }
    }

    /// A family with the domain of the one to come, for checking the rows that it is made from.
    pub fn domain(&self, schema: &Schema) -> Result<AnyFamily, Failure> {
        let family = match self.parts.as_slice() {
            [part] => neutral(part.kind, schema.dimensions()),
            _ => self.product(schema, |kind, columns| neutral(kind, columns.len())),
        }?;
        match self.informative(schema)? {
            None => Ok(family),
            Some(columns) => {
                let row = Batch::new(schema.dimensions(), vec![0.0; schema.dimensions()]);
                Ok(family.with_absence(columns, &row.map_err(Failure::input)?)?)
            }
        }
    }

    /// One family for each part, on its columns.
    fn product(
        &self,
        schema: &Schema,
        family_of: impl Fn(Kind, &[usize]) -> Result<AnyFamily, Failure>,
    ) -> Result<AnyFamily, Failure> {
        let mut blocks = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            let columns = self.places(part, schema)?;
            let family = family_of(part.kind, &columns)?;
            blocks.push(Block { columns, family });
        }
        Ok(AnyFamily::Product(Product::new(blocks)?))
    }
}

/// Values that stand for intervals of the given widths, where they are real numbers.
fn with_resolution(family: AnyFamily, text: &str, first: &Batch) -> Result<AnyFamily, Failure> {
    let named = |error: Failure| error.naming("--resolution");
    let mut widths = parse_vector(text, family.dimensions()).map_err(|error| named(Failure::from(error)))?;
    if text.trim().parse::<f64>().is_ok() {
        // One number is for all columns that have a resolution. A constant keeps the interval without which its density would
        // grow with every row, and drown what tells clusters apart.
        let is_constant = |column: usize| first.rows().all(|row| row[column] == first.row(0)[column]);
        for (column, width) in widths.iter_mut().enumerate() {
            *width = match family.resolution(column) {
                None => 0.0,
                Some(own) if is_constant(column) => own.max(*width),
                Some(_) => *width,
            };
        }
    }
    family.with_resolution(&widths).map_err(|error| named(Failure::from(error)))
}

fn shown_bytes(bytes: u64) -> String {
    match bytes {
        0..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// Values far enough apart that a normal family framed by them takes every row that one framed by the data could.
const WIDEST: f64 = 1e150;

/// A family of this kind before any row was seen: only its domain means something.
fn neutral(kind: Kind, dimensions: usize) -> Result<AnyFamily, Failure> {
    let rows: &[f64] = match kind {
        Kind::Gaussian | Kind::Diagonal | Kind::Spherical => &[-WIDEST, WIDEST],
        _ => &[1.0],
    };
    let values = rows.iter().flat_map(|value| std::iter::repeat_n(*value, dimensions)).collect();
    from_rows(kind, &Batch::new(dimensions, values).map_err(Failure::input)?)
}

fn parse_part(text: &str) -> Result<Part, Failure> {
    let (name, columns) = text.split_once(':').unwrap_or((text, ""));
    let found = KINDS.iter().find(|(known, _)| *known == name.trim());
    let Some((_, kind)) = found else {
        let known: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        return Err(Failure::input(format!("unknown family `{}`", name.trim()))
            .with_hint(format!("families are {}", known.join(", "))));
    };
    let columns = columns.split(',').map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect();
    Ok(Part { kind: *kind, columns })
}

fn from_rows(kind: Kind, rows: &Batch) -> Result<AnyFamily, Failure> {
    Ok(match kind {
        Kind::Gaussian => AnyFamily::Gaussian(Gaussian::from_rows(rows)?),
        Kind::Diagonal => AnyFamily::Diagonal(Diagonal::from_rows(rows)?),
        Kind::Spherical => AnyFamily::Spherical(Spherical::from_rows(rows)?),
        Kind::Bernoulli => AnyFamily::Bernoulli(Bernoulli::from_rows(rows)?),
        Kind::Categorical => AnyFamily::Categorical(Categorical::from_rows(rows)?),
        Kind::Poisson => AnyFamily::Poisson(Poisson::from_rows(rows)?),
        Kind::Multinomial => AnyFamily::Multinomial(Multinomial::from_rows(rows)?),
    })
}

fn position(schema: &Schema, name: &str) -> Result<usize, Failure> {
    schema.position(name).ok_or_else(|| Failure::input(format!("there is no column `{name}`")))
}

/// The flags with what the data say where a flag is missing.
struct Given {
    mean: Option<Vec<f64>>,
    kappa: Option<f64>,
    scale: Option<Vec<f64>>,
    dof: Option<f64>,
}

fn with_prior(kind: Kind, first: &Batch, flags: &PriorArgs) -> Result<AnyFamily, Failure> {
    let d = first.dimensions();
    let vector = |flag: &str, value: &Option<String>| -> Result<Option<Vec<f64>>, Failure> {
        let parsed = value.as_ref().map(|text| parse_vector(text, d)).transpose();
        parsed.map_err(|error| Failure::from(error).naming(flag))
    };
    let given = Given {
        mean: vector("--prior-mean", &flags.prior_mean)?,
        kappa: flags.prior_kappa,
        scale: vector("--prior-scale", &flags.prior_scale)?,
        dof: flags.prior_dof,
    };
    // Here, in the units and under the names that the user knows.
    let scales = given.scale.iter().flatten().map(|value| ("--prior-scale", value));
    let strengths = given.kappa.iter().map(|value| ("--prior-kappa", value));
    let mut positive = scales.chain(strengths).chain(given.dof.iter().map(|value| ("--prior-dof", value)));
    if let Some((flag, value)) = positive.find(|(_, value)| !(value.is_finite() && **value > 0.0)) {
        return Err(Failure::input(format!("{flag}: {value} is not a finite number above 0")));
    }
    match kind {
        Kind::Gaussian | Kind::Diagonal | Kind::Spherical => normal(kind, first, given),
        _ => counts(kind, first, given),
    }
}

fn normal(kind: Kind, first: &Batch, given: Given) -> Result<AnyFamily, Failure> {
    let d = first.dimensions();
    let frame = match kind {
        Kind::Spherical => Frame::isotropic_from_rows(first)?,
        _ => Frame::from_rows(first)?,
    };
    let mean = given.mean.unwrap_or_else(|| frame.shift().to_vec());
    let kappa = given.kappa.unwrap_or(0.1);
    let spread = || frame.scale().iter().map(|s| 0.1 * s * s).collect();
    let scale: Vec<f64> = given.scale.unwrap_or_else(spread);
    Ok(match kind {
        Kind::Gaussian => {
            let dof = given.dof.unwrap_or(d as f64 + 2.0);
            let prior = NormalInverseWishart::with_diagonal_psi(mean, kappa, &scale, dof);
            AnyFamily::Gaussian(Gaussian::with_prior_in_data_units(frame, prior)?)
        }
        Kind::Diagonal => {
            // In one column Ψ₀ and ν₀ of the inverse-Wishart are twice the rate and the shape of the precision.
            let a = given.dof.unwrap_or(3.0) / 2.0;
            let prior = mean.iter().zip(&scale).map(|(mean, scale)| NormalGamma {
                mean: *mean,
                kappa,
                a,
                b: scale / 2.0,
            });
            AnyFamily::Diagonal(Diagonal::with_prior_in_data_units(frame, prior.collect())?)
        }
        _ => {
            let a = given.dof.unwrap_or(3.0) / 2.0;
            let b = scale.iter().sum::<f64>() / d as f64 / 2.0;
            AnyFamily::Spherical(Spherical::with_prior_in_data_units(
                frame,
                SphericalPrior { mean, kappa, a, b },
            )?)
        }
    })
}

/// Families of counts: `--prior-mean` and `--prior-kappa` say what one would have seen and how often.
fn counts(kind: Kind, first: &Batch, given: Given) -> Result<AnyFamily, Failure> {
    let d = first.dimensions();
    let kappa = given.kappa.unwrap_or(1.0);
    let default = from_rows(kind, first)?;
    Ok(match (kind, default) {
        (Kind::Bernoulli, _) => {
            let mean = given.mean.unwrap_or_else(|| vec![0.5; d]);
            let ones = mean.iter().map(|p| p * kappa).collect();
            let zeros = mean.iter().map(|p| (1.0 - p) * kappa).collect();
            AnyFamily::Bernoulli(Bernoulli::new(ones, zeros)?)
        }
        (Kind::Poisson, AnyFamily::Poisson(guess)) => {
            let means = || guess.shape().iter().zip(guess.rate()).map(|(shape, rate)| shape / rate).collect();
            let mean: Vec<f64> = given.mean.unwrap_or_else(means);
            AnyFamily::Poisson(Poisson::new(mean.iter().map(|m| m * kappa).collect(), vec![kappa; d])?)
        }
        (Kind::Categorical, AnyFamily::Categorical(guess)) => {
            let cells = guess.pseudo_counts().iter().enumerate();
            let scale = given.scale.unwrap_or_else(|| vec![kappa; d]);
            let counts = cells.map(|(column, cells)| vec![scale[column]; cells.len()]).collect();
            AnyFamily::Categorical(Categorical::new(counts)?)
        }
        (Kind::Multinomial, AnyFamily::Multinomial(guess)) => {
            let scale = given.scale.unwrap_or_else(|| vec![kappa; d]);
            AnyFamily::Multinomial(Multinomial::new(scale, guess.typical_total())?)
        }
        (_, default) => default,
    })
}

/// A name for people: `gaussian`, or the parts of a product.
pub fn describe(family: &AnyFamily) -> String {
    match family {
        AnyFamily::Product(product) => {
            let parts = product.blocks().iter();
            parts
                .map(|b| format!("{}×{}", b.family.name(), b.family.dimensions()))
                .collect::<Vec<_>>()
                .join(" + ")
        }
        other => other.name().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use anabranch_io::Column;

    use super::*;

    fn schema(names: &[&str]) -> Schema {
        Schema { columns: names.iter().map(|name| Column::number(*name)).collect(), named: true }
    }

    #[test]
    fn a_product_names_its_columns() {
        let spec = FamilySpec::parse("gaussian:a, b+categorical:c").unwrap();
        assert_eq!(spec.columns().unwrap(), ["a", "b", "c"]);
        assert_eq!(spec.categorical_columns(), ["c"]);
    }

    #[test]
    fn an_unknown_family_lists_the_known_ones() {
        let Failure::Input { message, hint } = FamilySpec::parse("gausian").unwrap_err() else { panic!() };
        assert_eq!(message, "unknown family `gausian`");
        assert!(hint.unwrap().contains("gaussian, diagonal"));
    }

    #[test]
    fn one_part_takes_what_the_others_leave() {
        let spec = FamilySpec::parse("poisson:c+gaussian+bernoulli:a").unwrap();
        let all = schema(&["a", "b", "c", "d"]);
        let places: Vec<_> = spec.parts.iter().map(|part| spec.places(part, &all).unwrap()).collect();
        assert_eq!(places, [vec![2], vec![1, 3], vec![0]]);
        assert_eq!(spec.columns(), None);
        assert!(spec.places(&spec.parts[1], &schema(&["a", "c"])).is_err());
    }

    #[test]
    fn two_parts_without_columns_and_unnamed_categories_are_refused() {
        assert!(FamilySpec::parse("gaussian+poisson").is_err());
        assert!(FamilySpec::parse("gaussian:a+categorical").is_err());
    }
}
