//! Columns as people see them: by name, with the names of their categories, and as one value where all rows have the same.

use anabranch::clusters::{Clusters, Difference, differences};
use anabranch::family::{AnyFamily, Family, Summary};
use anabranch::posterior::Posterior;
use anabranch::process::AnyProcess;
use anabranch_io::model::Model;
use anabranch_io::{Held, OTHER};

use crate::picture::significant;

/// The columns of a model.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    named: bool,
    names: Vec<String>,
    /// The names of the codes; none where values are numbers.
    categories: Vec<Option<Vec<String>>>,
    /// What they have held, where that is known.
    held: Vec<Held>,
}

impl Columns {
    /// Those of this model.
    pub fn of(model: &Model) -> Self {
        let (posterior, schema) = (model.fold.posterior(), &model.provenance.schema);
        let family = posterior.family();
        let categories = |column: usize| {
            let named = schema.columns.get(column).and_then(|column| column.categories.as_ref());
            let name = |code: usize| match named.and_then(|named| named.get(code)) {
                Some(name) => name.clone(),
                None if named.is_none() && Some(code + 1) != family.categories(column) => code.to_string(),
                None => OTHER.to_owned(),
            };
            family.categories(column).map(|n| (0..n).map(name).collect())
        };
        Self {
            named: schema.named,
            names: schema.titles(),
            categories: (0..family.dimensions()).map(categories).collect(),
            held: model.provenance.held.clone(),
        }
    }

    /// What they are called, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What a sentence calls one: column "x", or column 3.
    pub fn called(&self, column: usize) -> String {
        if self.named { format!("column {:?}", self.names[column]) } else { self.names[column].clone() }
    }

    /// The value of a column of numbers that has only one.
    pub fn constant(&self, column: usize) -> Option<f64> {
        match self.held.get(column) {
            Some(Held::Only(value)) if !matches!(self.categories.get(column), Some(Some(_))) => Some(*value),
            _ => None,
        }
    }

    /// The same of each column.
    pub fn constants(&self) -> Vec<Option<f64>> {
        (0..self.names.len()).map(|column| self.constant(column)).collect()
    }

    /// Columns without a value in any row.
    pub fn empty(&self) -> impl Iterator<Item = usize> {
        (0..self.names.len()).filter(|column| self.held.get(*column) == Some(&Held::Nothing))
    }

    /// What sets the clusters of the model apart: constants do not.
    pub fn differences(
        &self,
        posterior: &Posterior<AnyFamily, AnyProcess>,
        clusters: &Clusters,
    ) -> Vec<Vec<Difference>> {
        let mut all = differences(posterior, clusters);
        all.iter_mut().for_each(|columns| columns.retain(|told| self.constant(told.column).is_none()));
        all
    }

    /// The name of a category, where the column has categories.
    pub fn category(&self, column: usize, code: usize) -> Option<&str> {
        self.categories.get(column)?.as_ref()?.get(code).map(String::as_str)
    }

    /// A summary in which constants are what they are, whatever the prior expects.
    pub fn settled(&self, mut summary: Summary) -> Summary {
        let d = summary.mean.len();
        for (column, value) in (0..d).filter_map(|column| Some((column, self.constant(column)?))) {
            (summary.mean[column], summary.spread[column]) = (value, 0.0);
            if let Some(covariance) = &mut summary.covariance {
                for other in 0..d {
                    (covariance[column * d + other], covariance[other * d + column]) = (0.0, 0.0);
                }
            }
        }
        summary
    }

    /// The most probable category where there are categories, the value of a constant, else mean and spread.
    pub fn cell(&self, summary: &Summary, column: usize) -> String {
        let shares = summary.probabilities.as_ref().and_then(|columns| columns.get(column));
        let best =
            shares.and_then(|shares| (0..shares.len()).max_by(|a, b| shares[*a].total_cmp(&shares[*b])));
        if let (Some(shares), Some(best)) = (shares, best)
            && let Some(name) = self.category(column, best)
        {
            return format!("{name} {:.0} %", 100.0 * shares[best]);
        }
        match self.constant(column) {
            Some(value) => significant(value, 4),
            None => {
                format!(
                    "{} ± {}",
                    significant(summary.mean[column], 4),
                    significant(summary.spread[column], 2)
                )
            }
        }
    }

    /// The column that sets a cluster apart, with its mean there, or the category that does with its share.
    pub fn difference(&self, told: &Difference) -> String {
        let name = self.names.get(told.column).map_or("", String::as_str);
        match told.category.and_then(|code| self.category(told.column, code)) {
            Some(category) => format!("{name} {category} {:.0} %", 100.0 * told.mean),
            None => format!("{name} {}", significant(told.mean, 3)),
        }
    }
}
