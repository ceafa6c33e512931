//! Documents from every format, hostile ones included, and the file of a model of topics.

use std::io::Write;

use anabranch::central::{Central, Memory};
use anabranch::documents::Documents;
use anabranch::engine::{self, Config};
use anabranch::family::Topic;
use anabranch::infer::TopicSettings;
use anabranch::posterior::TopicPredictor;
use anabranch::process::{Bound, Hierarchical};
use anabranch_io::model::{Model, TopicModel, TopicProvenance};
use anabranch_io::words::{BagFormat, BagOptions, Bags, UNKNOWN, Vocabulary};
use anabranch_io::{Input, OnBadRow, ReadError};
use proptest::prelude::*;

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
            for format in [BagFormat::Uci, BagFormat::Ldac, BagFormat::Npz, BagFormat::Jsonl] {
                if let Ok(mut bags) = open(input.clone(), format) {
                    while let Ok(Some(_)) = bags.next_documents(3) {}
                }
            }
        }
    }
}
