//! Documents from every format, hostile ones included, and the file of a model of topics.

use std::io::Write;
use std::sync::Arc;

use anabranch::central::{Central, Memory};
use anabranch::documents::Documents;
use anabranch::engine::{self, Config};
use anabranch::family::Topic;
use anabranch::infer::TopicSettings;
use anabranch::posterior::TopicPredictor;
use anabranch::process::{Bound, Hierarchical};
use anabranch_io::model::{Model, TopicModel, TopicProvenance};
use anabranch_io::words::{BagFormat, BagOptions, Bags, UNKNOWN, Vocabulary, WordChoice};
use anabranch_io::{Format, Input, OnBadRow, ReadError};
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::basic::Compression;
use proptest::prelude::*;

use crate::support::{arrow_file, arrow_stream, parquet};

fn open(bytes: impl Into<Vec<u8>>, format: BagFormat) -> Result<Bags, ReadError> {
    let vocabulary = Vocabulary::new(["sun", "rain", "wind", "snow"].map(str::to_owned).to_vec()).unwrap();
    let options = BagOptions { format: Some(format), vocabulary: Some(vocabulary), ..BagOptions::default() };
    Bags::open(&[Input::Memory(bytes.into())], options)
}

fn read(bytes: impl Into<Vec<u8>>, format: BagFormat) -> Result<Documents, ReadError> {
    Ok(open(bytes, format)?.next_documents(100)?.expect("there are documents"))
}

/// Two documents: rain twice and snow once; sun once.
fn expected() -> Documents {
    Documents::new(4, [vec![(1, 2.0), (3, 1.0)], vec![(0, 1.0)]]).unwrap()
}

/// An array as numpy stores it.
fn npy(descr: &str, n: usize, bytes: &[u8]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n},), }}").into_bytes();
    header.resize((header.len() + 11).next_multiple_of(64) - 11, b' ');
    header.push(b'\n');
    [b"\x93NUMPY\x01\x00".as_slice(), &(header.len() as u16).to_le_bytes(), &header, bytes].concat()
}

/// A zip archive of members that are stored or deflated in turn.
fn zip(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (ix, (name, content)) in members.iter().enumerate() {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(content);
        let crc = hasher.finalize();
        let (method, packed) = match ix % 2 {
            0 => (0u16, content.clone()),
            _ => {
                let mut encoder =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(content).unwrap();
                (8, encoder.finish().unwrap())
            }
        };
        let offset = bytes.len() as u32;
        let fields = [&[20, 0, 0, 0][..], &method.to_le_bytes(), &[0; 4], &crc.to_le_bytes()].concat();
        let sizes = [(packed.len() as u32).to_le_bytes(), (content.len() as u32).to_le_bytes()].concat();
        let name_length = (name.len() as u16).to_le_bytes();
        bytes.extend(
            [b"PK\x03\x04", &fields[..], &sizes, &name_length, &[0, 0], name.as_bytes(), &packed].concat(),
        );
        directory.extend(
            [
                b"PK\x01\x02\x14\x00",
                &fields[..],
                &sizes,
                &name_length,
                &[0; 12],
                &offset.to_le_bytes(),
                name.as_bytes(),
            ]
            .concat(),
        );
    }
    let n = (members.len() as u16).to_le_bytes();
    let end = [
        b"PK\x05\x06\x00\x00\x00\x00",
        &n[..],
        &n,
        &(directory.len() as u32).to_le_bytes(),
        &(bytes.len() as u32).to_le_bytes(),
        &[0, 0],
    ]
    .concat();
    [bytes, directory, end].concat()
}

/// The matrix of [`expected`], with the words of the first row out of order and one of them in two parts.
fn matrix(indptr: &[u32], indices: &[u16], shape: [i64; 2]) -> Vec<u8> {
    let data: Vec<u8> = (0..indices.len()).flat_map(|_| 1f64.to_le_bytes()).collect();
    zip(&[
        (
            "indices.npy",
            npy("<u2", indices.len(), &indices.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()),
        ),
        (
            "indptr.npy",
            npy("<u4", indptr.len(), &indptr.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>()),
        ),
        ("shape.npy", npy("<i8", 2, &shape.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>())),
        ("data.npy", npy("<f8", indices.len(), &data)),
    ])
}

#[test]
fn every_format_gives_the_same_documents() {
    let uci = "2\n4\n3\n1 2 2\n1 4 1\n2 1 1\n";
    assert_eq!(read(uci, BagFormat::Uci).unwrap(), expected());
    assert_eq!(read("2 1:2 3:1\n1 0:1\n", BagFormat::Ldac).unwrap(), expected());
    let json = "{\"tokens\": [\"rain\", \"snow\", \"rain\"]}\n\n{\"id\": 7, \"text\": \"The SUN!\"}\n";
    assert_eq!(read(json, BagFormat::Jsonl).unwrap(), expected());
    assert_eq!(read(matrix(&[0, 3, 4], &[3, 1, 1, 0], [2, 4]), BagFormat::Npz).unwrap(), expected());
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(uci.as_bytes()).unwrap();
    assert_eq!(read(gz.finish().unwrap(), BagFormat::Uci).unwrap(), expected());
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let message = |bytes: &str, format| read(bytes, format).unwrap_err().to_string();
    assert_eq!(
        message("2\n4\nx\n", BagFormat::Uci),
        "memory: line 3: expected a number of documents, words or entries alone on its line"
    );
    assert_eq!(message("1\n4\n1\n1 5 1\n", BagFormat::Uci), "memory: line 4: words are numbered from 1 to 4");
    assert_eq!(
        message("2\n4\n2\n2 1 1\n1 1 1\n", BagFormat::Uci),
        "memory: line 5: document 1 comes after document 2"
    );
    assert_eq!(message("2 1:2\n", BagFormat::Ldac), "memory: line 1: has 1 words and announces 2");
    assert_eq!(message("1 1=2\n", BagFormat::Ldac), "memory: line 1: expected word:count, both numbers");
    assert!(message("1 9:1\n", BagFormat::Ldac).contains("word 9 is not below 4"));
    assert!(message("{\"words\": []}\n", BagFormat::Jsonl).contains("neither \"tokens\" nor \"text\""));
}

#[test]
fn bad_lines_are_skipped_when_asked() {
    let lines = "{\"tokens\": [\"sun\"]}\nnot json\n{\"tokens\": [\"rain\", \"hail\"]}\n";
    let options = BagOptions { on_bad_row: OnBadRow::Skip, ..BagOptions::default() };
    let mut bags = Bags::open(&[Input::Memory(lines.into())], options).unwrap();
    assert_eq!(bags.next_documents(9).unwrap().unwrap().len(), 2);
    assert_eq!((bags.skipped(), bags.unknown_words()), (1, 0.0));
}

/// The words of the first minibatch are the vocabulary, and what comes later is `<unk>`.
#[test]
fn later_words_are_unknown_and_counted() {
    let lines = "{\"tokens\": [\"sun\", \"rain\"]}\n{\"tokens\": [\"hail\", \"fog\", \"sun\"]}\n";
    let mut bags = Bags::open(&[Input::Memory(lines.into())], BagOptions::default()).unwrap();
    bags.next_documents(1).unwrap().unwrap();
    assert_eq!(bags.vocabulary().unwrap().words(), ["rain", "sun", UNKNOWN]);
    let second = bags.next_documents(1).unwrap().unwrap();
    assert_eq!(second.entries(0).collect::<Vec<_>>(), [(1, 1.0), (2, 2.0)]);
    assert_eq!(bags.unknown_words(), 2.0);
    // A list that was given and has no such word leaves them out.
    let given = read("{\"tokens\": [\"sun\", \"hail\"]}\n", BagFormat::Jsonl).unwrap();
    assert_eq!(given.tokens(), 1.0);
}

fn with_column(bytes: impl Into<Vec<u8>>, format: Option<BagFormat>, column: &str) -> BagOptionsAndInput {
    let vocabulary = Vocabulary::new(["sun", "rain", "wind", "snow"].map(str::to_owned).to_vec()).unwrap();
    let options = BagOptions {
        format,
        vocabulary: Some(vocabulary),
        column: Some(column.to_owned()),
        ..BagOptions::default()
    };
    (options, Input::Memory(bytes.into()))
}

type BagOptionsAndInput = (BagOptions, Input);

#[test]
fn text_gives_the_same_documents_wherever_it_stands() {
    assert_eq!(read("Rain, snow -- and RAIN!\n\n  \nthe sun\n", BagFormat::Text).unwrap(), expected());
    // What is no text is part of no word.
    assert_eq!(read(b"rain\xffrain snow\r\nsun\xc3".as_slice(), BagFormat::Text).unwrap(), expected());
    let csv = "id,body\n1,\"Rain, snow\nand rain\"\n2,the sun\n";
    let tsv = "body\tid\nRain snow rain\t7\nThe sun\t8\n";
    let json = "{\"body\": \"rain snow rain\", \"text\": \"wind\"}\n{\"body\": [\"sun\"]}\n";
    let cases = [
        (csv, Some(BagFormat::Table(Format::Csv)), "body"),
        (csv, None, "2"),
        (tsv, Some(BagFormat::Table(Format::Tsv)), "body"),
        (json, Some(BagFormat::Jsonl), "body"),
        (json, None, "body"),
    ];
    for (bytes, format, column) in cases {
        let (options, input) = with_column(bytes, format, column);
        let mut bags = Bags::open(&[input], options).unwrap();
        assert_eq!(bags.next_documents(9).unwrap(), Some(expected()), "{format:?}");
        assert_eq!(bags.next_documents(9).unwrap(), None);
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("b.txt", "sun"), ("a.txt", "rain snow\nrain"), ("c.md", "wind")] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let (options, _) = with_column("", None, "");
    let options = BagOptions { column: None, ..options };
    let mut bags = Bags::open(&[Input::Path(folder.path().to_owned())], options).unwrap();
    assert_eq!(bags.next_documents(9).unwrap(), Some(expected()));
}

#[test]
fn text_stands_in_columns_of_parquet_and_arrow() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["Rain, snow and rain", "the sun"]));
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let batch = RecordBatch::try_from_iter([("id", ids), ("body", texts)]).unwrap();
    let files = [
        (parquet(&batch, Compression::SNAPPY), None),
        (arrow_file(&batch), None),
        (arrow_stream(&batch), Some(BagFormat::Table(Format::Arrow))),
    ];
    for (bytes, format) in files {
        let (options, input) = with_column(bytes, format, "body");
        let mut bags = Bags::open(&[input], options).unwrap();
        assert_eq!(bags.next_documents(9).unwrap(), Some(expected()), "{format:?}");
        assert_eq!(bags.next_documents(9).unwrap(), None);
    }
}

#[test]
fn columns_that_hold_no_documents_are_told() {
    let message = |bytes: &str, column: &str| {
        let (options, input) = with_column(bytes, None, column);
        let read = Bags::open(&[input], options).and_then(|mut bags| bags.next_documents(9));
        read.map(drop).unwrap_err().to_string()
    };
    assert!(
        message("id,body\n1,sun\n2,rain\n", "text").contains("\"text\""),
        "{}",
        message("id,body\n1,a\n", "text")
    );
    assert!(message("{\"body\": \"sun\"}\n", "text").contains("it has no \"text\""));
    assert!(message("{\"text\": 7}\n", "text").contains("neither text nor a list of words"));
    let (options, input) = with_column("id,body\n1,sun\n2\n3,rain\n", None, "body");
    let options = BagOptions { on_bad_row: OnBadRow::Skip, ..options };
    let mut bags = Bags::open(&[input], options).unwrap();
    assert_eq!((bags.next_documents(9).unwrap().unwrap().len(), bags.skipped()), (2, 1));
}

#[test]
fn a_minibatch_of_texts_takes_no_more_memory_than_it_may() {
    let options = BagOptions { format: Some(BagFormat::Text), max_memory: Some(99), ..BagOptions::default() };
    let read = |n| {
        Bags::open(&[Input::Memory("ten words!\n".repeat(30).into())], options.clone())
            .unwrap()
            .next_documents(n)
    };
    assert!(read(9).is_ok());
    assert!(
        read(10).unwrap_err().to_string().contains("a minibatch of 10 documents takes more than 99 bytes")
    );
}

/// Words that enough later documents have come in behind the others, and a run that reads the same again finds the same.
#[test]
fn a_vocabulary_grows_along_the_stream() {
    let text = "sun rain\nrain sun\nsun hail hail\nhail fog\nfog sun\nmist\nmist\nfog hail\n";
    let choice = WordChoice { least_documents: Some(2), most_share: 1.0, size: Some(5) };
    let options = BagOptions { format: Some(BagFormat::Text), choice, ..BagOptions::default() };
    let open = |options| Bags::open(&[Input::Memory(text.into())], options).unwrap();
    let mut bags = open(options.clone());
    let words = bags.words();
    assert!(words.get().is_none());
    let first = bags.next_documents(2).unwrap().unwrap();
    assert_eq!(
        (first.n_words(), bags.vocabulary().unwrap().words().join(" ")),
        (3, "rain sun <unk>".to_owned())
    );
    // Hail becomes known with the second of its documents, and the first of them has it already.
    let second = bags.next_documents(2).unwrap().unwrap();
    assert_eq!((second.n_words(), second.entries(0).collect::<Vec<_>>()), (4, vec![(1, 1.0), (3, 2.0)]));
    assert_eq!(second.entries(1).collect::<Vec<_>>(), [(2, 1.0), (3, 1.0)]);
    let rest = bags.next_documents(9).unwrap().unwrap();
    assert_eq!(bags.vocabulary().unwrap().words().join(" "), "rain sun <unk> hail fog");
    assert_eq!((rest.n_words(), rest.tokens(), bags.unknown_words()), (5, 6.0, 3.0));
    let (known, tokenizer) = words.get().unwrap();
    assert_eq!(&known, bags.vocabulary().unwrap());
    // The same again, up to where the earlier run was; and other documents under its name.
    let again = BagOptions { found_before: Some((known.clone(), tokenizer.clone())), ..options.clone() };
    let mut bags = open(again.clone());
    assert_eq!(bags.words().get().unwrap().0, known);
    assert_eq!(bags.next_documents(2).unwrap().unwrap(), first);
    assert_eq!(bags.next_documents(2).unwrap().unwrap(), second);
    let mut other = Bags::open(&[Input::Memory("sun snow\nsnow sun\n".into())], again).unwrap();
    assert!(other.next_documents(2).unwrap_err().to_string().contains("not those that the checkpoint"));
}

#[test]
fn phrases_and_common_words_of_the_first_documents_hold_for_all() {
    let text = "said prime minister won\nsaid prime minister lost\nsaid the prime minister\nsaid prime minister\nhe prime minister\n";
    let choice = WordChoice { most_share: 0.7, ..WordChoice::default() };
    let options =
        BagOptions { format: Some(BagFormat::Text), choice, phrases: true, ..BagOptions::default() };
    let mut bags = Bags::open(&[Input::Memory(format!("{text}{text}").into())], options).unwrap();
    bags.next_documents(5).unwrap().unwrap();
    assert_eq!(bags.vocabulary().unwrap().words(), ["lost", "won", UNKNOWN]);
    let (_, tokenizer) = bags.words().get().unwrap();
    assert_eq!(tokenizer.common.iter().map(String::as_str).collect::<Vec<_>>(), ["prime_minister", "said"]);
    // Left out is not unknown.
    assert_eq!((bags.next_documents(9).unwrap().unwrap().tokens(), bags.unknown_words()), (2.0, 0.0));
}

#[test]
fn matrices_that_do_not_fit_are_refused() {
    for (indptr, indices, shape) in [
        (&[0u32, 2][..], &[0u16][..], [1, 4]),
        (&[0, 1], &[9], [1, 4]),
        (&[1, 1], &[0], [1, 4]),
        (&[0, 1], &[0], [5, 4]),
        (&[0, 1], &[0], [1, -4]),
        (&[0, 1], &[0], [1, 5]),
    ] {
        assert!(
            read(matrix(indptr, indices, shape), BagFormat::Npz).is_err(),
            "{indptr:?} {indices:?} {shape:?}"
        );
    }
    let good = matrix(&[0, 3, 4], &[3, 1, 1, 0], [2, 4]);
    // The last bytes are the length of a comment, which nobody reads.
    for cut in 1..good.len() - 5 {
        assert!(read(&good[..cut], BagFormat::Npz).is_err(), "cut at {cut}");
    }
}

/// A fitted model with documents remembered.
fn fitted() -> (TopicModel, Memory<Documents>) {
    let document = |ix: u32| (0..3).map(|w| (3 * (ix % 2) + w, f64::from(1 + (ix + w) % 3))).collect();
    let documents = Documents::new(6, (0..60).map(document)).unwrap();
    let process = Hierarchical::new(1.0, 2.0, Bound::Paper).unwrap();
    let central =
        Central::new(Topic::new(6, 0.05).unwrap(), process).with_memory(Memory::<Documents>::default());
    let mut source = [documents.clone()].into_iter().enumerate();
    let config = Config::new(TopicSettings::default());
    engine::bootstrap(&central, &mut source, &config, &mut ()).unwrap();
    let words = ["a", "b", "c", "d", "e", "f"].map(str::to_owned).to_vec();
    let provenance =
        TopicProvenance { seed: 3, documents: 60, coherence: vec![Some(0.5), None], ..Default::default() };
    let model =
        TopicModel { fold: central.checkpoint(), vocabulary: Vocabulary::new(words).unwrap(), provenance };
    let first = Memory::restore(
        central.memory().sample().map(|(key, row)| (key, row.clone())).collect(),
        Some(documents.slice(0, 5)),
    );
    (model, first)
}

#[test]
fn a_model_of_topics_survives_its_file() {
    let (model, memory) = fitted();
    let bytes = model.to_bytes(Some(&memory));
    let (again, remembered) = TopicModel::from_bytes(&bytes).unwrap();
    assert_eq!(again.to_bytes(Some(&remembered)), bytes);
    assert_eq!((&again.vocabulary, &again.provenance), (&model.vocabulary, &model.provenance));
    assert_eq!(remembered.first(), memory.first());
    assert_eq!(remembered.sampled_rows(), memory.sampled_rows());
    let of =
        |model: &TopicModel| TopicPredictor::new(model.fold.posterior()).proportions(&[(0, 2.0), (4, 1.0)]);
    assert_eq!(of(&again), of(&model));
    // The two kinds of model are not taken for each other.
    assert!(Model::from_bytes(&bytes).unwrap_err().to_string().contains("model of topics"));
}

#[test]
fn a_damaged_model_of_topics_is_refused() {
    let (model, memory) = fitted();
    let bytes = model.to_bytes(Some(&memory));
    for place in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        assert!(TopicModel::from_bytes(&damaged).is_err(), "byte {place}");
    }
    for cut in (0..bytes.len()).step_by(11) {
        assert!(TopicModel::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
    }
}

proptest! {
    /// Whatever the bytes are: documents, or an error, and never a panic.
    #[test]
    fn hostile_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        text in "[0-9 :\\n{}\"a-z\\[\\],.-]{0,80}",
        place in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        let mut changed = matrix(&[0, 3, 4], &[3, 1, 1, 0], [2, 4]);
        let at = place.index(changed.len());
        changed[at] = value;
        for input in [bytes, text.into_bytes(), changed] {
            let formats = [BagFormat::Uci, BagFormat::Ldac, BagFormat::Npz, BagFormat::Jsonl, BagFormat::Text];
            for format in formats {
                if let Ok(mut bags) = open(input.clone(), format) {
                    while let Ok(Some(_)) = bags.next_documents(3) {}
                }
            }
        }
    }
}
