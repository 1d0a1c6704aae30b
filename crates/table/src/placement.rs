//! Which shard holds what. Pure; every client and server of a job must agree on it, and so must
//! checkpoints, which outlive the number of servers.
//!
//! A dense block or a sparse row belongs to one of [`BUCKETS`] buckets for ever; the buckets are
//! dealt out to the shards of a kind (dense or sparse) in contiguous ranges:
//!
//! ```text
//! bucket = top 16 bits of mix64(fnv1a64(parameter name) ^ mix64(index))
//! shard  = bucket * shards / 65536                      (rounded down)
//! shards = servers * ports of the kind,  shard = server * ports + port
//! ```
//!
//! The index is the number of the block or the key of the row, the name is hashed as UTF-8, and
//! `mix64` is the finalizer of splitmix64. Both hashes are fixed: a peer that knows them can choose
//! keys that all fall to one shard, but only peers of the job get so far.

use contract::{Error, Result};
use std::ops::Range;

/// Slices that the model is cut into, whatever the number of shards.
pub const BUCKETS: u32 = 1 << 16;

/// Elements (f32) of a dense block; the last block of a parameter may be shorter.
pub const BLOCK_ELEMENTS: usize = 16_384;

/// Where a shard stands among the shards of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardPlace {
    server: u32,
    servers: u32,
    port: u32,
    ports: u32,
}

impl ShardPlace {
    /// The shard behind port `port` of `ports` on server `server` of `servers`, counted from 0.
    ///
    /// # Errors
    /// If a number is out of its range, or there are more shards than buckets.
    pub fn new(server: u32, servers: u32, port: u32, ports: u32) -> Result<ShardPlace> {
        let place = ShardPlace { server, servers, port, ports };
        let problem = if server >= servers {
            "the server index must be below the number of servers"
        } else if port >= ports {
            "the port index must be below the number of ports"
        } else if u64::from(servers) * u64::from(ports) > u64::from(BUCKETS) {
            "there are more shards than buckets to deal out; use fewer servers or ports"
        } else {
            return Ok(place);
        };
        Err(Error::invalid(problem)
            .with("server", server)
            .with("servers", servers)
            .with("port", port)
            .with("ports", ports))
    }

    /// Index of the server.
    pub fn server(&self) -> u32 {
        self.server
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Index of the port among those of its kind.
    pub fn port(&self) -> u32 {
        self.port
    }

    /// Ports of the kind per server.
    pub fn ports(&self) -> u32 {
        self.ports
    }

    /// Number of this shard among all of its kind.
    pub fn shard(&self) -> u32 {
        self.server * self.ports + self.port
    }

    /// Number of shards of the kind.
    pub fn shards(&self) -> u32 {
        self.servers * self.ports
    }

    /// The buckets of this shard.
    pub fn buckets(&self) -> Range<u32> {
        buckets_of(self.shard(), self.shards())
    }

    /// Whether a bucket belongs to this shard.
    #[inline]
    pub fn owns(&self, bucket: u32) -> bool {
        shard_of(bucket, self.shards()) == self.shard()
    }

    /// The blocks of a dense parameter that belong to this shard, in rising order.
    ///
    /// It looks at every block of the parameter, so limit `elements` before.
    pub fn blocks(self, name_hash: u64, elements: u64) -> impl Iterator<Item = u64> {
        (0..blocks_of(elements)).filter(move |&block| self.owns(bucket_of(name_hash, block)))
    }
}

/// The shard that owns a bucket. At most [`BUCKETS`] shards.
#[inline]
pub fn shard_of(bucket: u32, shards: u32) -> u32 {
    (u64::from(bucket) * u64::from(shards) / u64::from(BUCKETS)) as u32
}

/// The buckets of a shard.
pub fn buckets_of(shard: u32, shards: u32) -> Range<u32> {
    let begin =
        |shard: u32| (u64::from(shard) * u64::from(BUCKETS)).div_ceil(u64::from(shards)) as u32;
    begin(shard)..begin(shard + 1)
}

/// The bucket of a dense block (by number) or of a sparse row (by key).
#[inline]
pub fn bucket_of(name_hash: u64, index: u64) -> u32 {
    (mix64(name_hash ^ mix64(index)) >> 48) as u32
}

/// Number of blocks of a dense parameter.
pub fn blocks_of(elements: u64) -> u64 {
    elements.div_ceil(BLOCK_ELEMENTS as u64)
}

/// The hash of a parameter's name: FNV-1a, 64 bits, of its UTF-8 bytes.
pub fn name_hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// The finalizer of splitmix64: a bijection in which every input bit moves every output bit.
#[inline]
pub fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Computed by a separate program in another language, from the text at the head of this file.
    #[test]
    fn the_hashes_have_the_values_that_every_client_must_reproduce() {
        let mixed = [0, 1, 2, u64::MAX].map(mix64);
        let expected = [0, 0x5692_161d_100b_05e5, 0xdbd2_3897_3a2b_148a, 0xb4d0_55fc_f2cb_bd7b];
        assert_eq!(mixed, expected);

        let check = |name: &str, hash: u64, buckets: [u32; 5]| {
            assert_eq!(name_hash(name), hash, "{name}");
            let found = [0, 1, 2, 16_384, u64::MAX].map(|index| bucket_of(hash, index));
            assert_eq!(found, buckets, "{name}");
        };
        check("", 0xcbf2_9ce4_8422_2325, [62762, 4160, 14427, 27492, 23798]);
        check("a", 0xaf63_dc4c_8601_ec8c, [704, 10096, 59909, 59978, 15341]);
        check("foobar", 0x8594_4171_f739_67e8, [16461, 58103, 29440, 35472, 27060]);
        check("embedding", 0x4a48_353a_d610_7ed2, [12891, 1758, 26093, 44747, 38512]);
        check("fc_1.w0", 0xba5c_a9b1_36b8_f707, [20235, 30755, 48121, 33647, 56871]);
        check("权重", 0x431f_016b_09ec_68e4, [32409, 3323, 7974, 55729, 55771]);
    }

    proptest! {
        #[test]
        fn every_bucket_has_exactly_one_owner(servers in 1..=256u32, ports in 1..=256u32) {
            let places = (0..servers)
                .flat_map(|server| (0..ports).map(move |port| (server, port)))
                .map(|(server, port)| ShardPlace::new(server, servers, port, ports).unwrap());
            let (mut next, mut smallest, mut largest) = (0, u32::MAX, 0);
            for (shard, place) in places.enumerate() {
                let buckets = place.buckets();
                prop_assert_eq!(place.shard() as usize, shard);
                prop_assert_eq!(buckets.start, next);
                for bucket in [buckets.start, buckets.end - 1] {
                    prop_assert_eq!(shard_of(bucket, place.shards()), place.shard());
                    prop_assert!(place.owns(bucket));
                }
                next = buckets.end;
                smallest = smallest.min(buckets.len() as u32);
                largest = largest.max(buckets.len() as u32);
            }
            prop_assert_eq!(next, BUCKETS);
            prop_assert!(largest - smallest <= 1);
        }

        #[test]
        fn every_block_has_exactly_one_owner(
            servers in 1..8u32, ports in 1..8u32, hash: u64, blocks in 0..200u64,
        ) {
            let elements = (blocks * BLOCK_ELEMENTS as u64).saturating_sub(1);
            let mut all: Vec<u64> = (0..servers * ports)
                .map(|shard| ShardPlace::new(shard / ports, servers, shard % ports, ports).unwrap())
                .flat_map(|place| place.blocks(hash, elements))
                .collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..blocks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_place_that_cannot_be_is_refused() {
        for (server, servers, port, ports) in
            [(1, 1, 0, 1), (0, 1, 2, 2), (0, 0, 0, 1), (0, 1, 0, 0), (0, 65_537, 0, 1)]
        {
            let place = ShardPlace::new(server, servers, port, ports);
            assert_eq!(place.unwrap_err().kind(), contract::Kind::Invalid);
        }
        assert!(ShardPlace::new(0, u32::MAX, 0, u32::MAX).is_err());
    }
}
