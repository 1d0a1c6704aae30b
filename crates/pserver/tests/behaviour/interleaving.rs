//! Trainers and shards in random interleavings: nobody waits for ever, and all get the same values.

use super::scene::{Scene, message};
use contract::mode::Mode;
use proptest::prelude::*;
use pserver::message::{FLAG_LAST, FLAG_READ_ONLY, Head, Verb};

const SHARDS: usize = 2;

/// What a trainer does, one call after the other; a call goes to all shards.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Call {
    Begin,
    Pull,
    Push,
    FinishPass(u64),
    Synchronize(u64),
    ReadOnly,
    Goodbye,
}

struct Trainer {
    calls: Vec<Call>,
    /// Requests of the call under way that are still to be sent, by shard.
    unsent: Vec<usize>,
    /// Requests that were sent and not answered: shard and token.
    open: Vec<(usize, u64)>,
    steps: [u64; SHARDS],
    sequences: [u64; SHARDS],
    values: Vec<Vec<f32>>,
}

fn program(rank: usize, batches: &[u64]) -> Vec<Call> {
    let mut calls = if rank == 0 { vec![Call::Begin] } else { Vec::new() };
    for (pass, batches) in batches.iter().enumerate() {
        calls.extend([Call::Pull, Call::Push].repeat(*batches as usize));
        calls.push(Call::FinishPass(pass as u64));
    }
    calls.extend([Call::Synchronize(1), Call::ReadOnly, Call::Synchronize(2), Call::Goodbye]);
    calls
}

/// Sends the next request of a trainer to one shard.
fn send(scene: &mut Scene, trainer: &mut Trainer, shard: usize, rank: u32) -> u64 {
    let keys: &[u64] = &[3, 50];
    let head = Head { version: trainer.steps[shard], ..Head::default() };
    match trainer.calls[0] {
        Call::Begin => scene.start(Verb::Begin, rank, Head::default(), &[]),
        Call::Pull => scene.start(Verb::Pull, rank, head, &[(0, &[0], &[]), (1, keys, &[])]),
        Call::Push => {
            trainer.sequences[shard] += 1;
            let head =
                Head { sequence: trainer.sequences[shard], samples: 1, flags: FLAG_LAST, ..head };
            scene.start(Verb::Push, rank, head, &[(0, &[0], &[1.0; 3]), (1, keys, &[1.0; 4])])
        }
        Call::FinishPass(pass) => {
            scene.start(Verb::FinishPass, rank, Head { version: pass, ..Head::default() }, &[])
        }
        Call::Synchronize(number) => {
            scene.start(Verb::Synchronize, rank, Head { version: number, ..Head::default() }, &[])
        }
        Call::ReadOnly => {
            let head = Head { flags: FLAG_READ_ONLY, ..head };
            scene.start(Verb::Pull, rank, head, &[(0, &[0], &[]), (1, keys, &[])])
        }
        Call::Goodbye => {
            scene.start(Verb::Goodbye, rank, Head { flags: FLAG_LAST, ..Head::default() }, &[])
        }
    }
}

/// Takes the answers that have come; the call is done when all shards have answered.
fn receive(scenes: &mut [Scene], trainer: &mut Trainer) {
    let open = std::mem::take(&mut trainer.open);
    for (shard, token) in open {
        let Some(reply) = scenes[shard].reply(token) else {
            trainer.open.push((shard, token));
            continue;
        };
        let reply = message(reply).unwrap();
        match trainer.calls[0] {
            Call::Push => trainer.steps[shard] += 1,
            Call::FinishPass(_) => trainer.steps[shard] = reply.head.version,
            Call::ReadOnly => trainer.values.push(reply.values),
            _ => {}
        }
    }
    if trainer.open.is_empty() && trainer.unsent.is_empty() {
        trainer.calls.remove(0);
        trainer.unsent = (0..SHARDS).collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn every_call_is_answered_whatever_the_order(
        batches in prop::collection::vec(prop::collection::vec(0..4u64, 2), 1..4),
        mode in prop_oneof![Just(Mode::Sync), Just(Mode::Async), Just(Mode::Stale(1))],
        choices in prop::collection::vec(any::<prop::sample::Index>(), 400),
    ) {
        let trainers = batches.len() as u32;
        let mut scenes: Vec<Scene> = (0..SHARDS).map(|_| Scene::new(trainers, mode)).collect();
        let mut crew: Vec<Trainer> = batches
            .iter()
            .enumerate()
            .map(|(rank, batches)| Trainer {
                calls: program(rank, batches),
                unsent: (0..SHARDS).collect(),
                open: Vec::new(),
                steps: [0; SHARDS],
                sequences: [0; SHARDS],
                values: Vec::new(),
            })
            .collect();
        for rank in 0..trainers {
            for scene in &mut scenes {
                scene.join(rank).unwrap();
            }
        }
        let mut choices = choices.iter().cycle();
        loop {
            let ready: Vec<usize> = (0..crew.len())
                .filter(|rank| !crew[*rank].calls.is_empty() && !crew[*rank].unsent.is_empty())
                .collect();
            if ready.is_empty() {
                break;
            }
            let rank = ready[choices.next().unwrap().index(ready.len())];
            let place = choices.next().unwrap().index(crew[rank].unsent.len());
            let shard = crew[rank].unsent.remove(place);
            let token = send(&mut scenes[shard], &mut crew[rank], shard, rank as u32);
            crew[rank].open.push((shard, token));
            for trainer in crew.iter_mut().filter(|trainer| !trainer.calls.is_empty()) {
                receive(&mut scenes, trainer);
            }
        }
        for (rank, trainer) in crew.iter().enumerate() {
            prop_assert!(trainer.calls.is_empty(), "trainer {rank} waits in {:?}", trainer.calls[0]);
            if mode == Mode::Sync {
                prop_assert_eq!(&trainer.values[0], &crew[0].values[0]);
            }
        }
        for scene in &scenes {
            prop_assert!(scene.shard.is_over());
        }
    }
}
