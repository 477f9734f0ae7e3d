//! Benchmarks a list of 1,000,000 entries in memory: an append, and changes in the middle.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use turntree::object::{Kind, Memory, ObjectId};
use turntree::tree::{Item, List};
use turntree_benches::run::is_test;

const ENTRIES: u32 = 1_000_000;

fn item(number: u32) -> Item {
    Item::new(Kind::Blob, ObjectId::of(Kind::Blob, &number.to_le_bytes()))
}

fn lists(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("list of 1,000,000");
    let mut objects = Memory::new();
    let mut list = List::new();
    let entries = if is_test() { ENTRIES / 100 } else { ENTRIES };
    list.extend(&mut objects, (0..entries).map(item).collect()).expect("a list");
    let mut next = entries;
    group.bench_function("append", |bencher| {
        bencher.iter_batched(
            || {
                next += 1;
                (list.clone(), item(next))
            },
            |(mut list, item)| {
                list.push(&mut objects, item).expect("one more");
                black_box(list.write(&mut objects).expect("the root"))
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("splice in the middle", |bencher| {
        bencher.iter_batched(
            || {
                next += 1;
                (list.clone(), item(next))
            },
            |(mut list, item)| {
                let middle = u64::from(entries / 2);
                list.splice(&mut objects, middle..middle + 1, vec![item]).expect("a change");
                black_box(list.write(&mut objects).expect("the root"))
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, lists);
criterion_main!(benches);
