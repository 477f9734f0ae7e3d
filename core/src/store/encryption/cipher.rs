//! The supported ciphers, and the keystream of one file.

use std::io::{self, ErrorKind};

use aes::Aes256Enc;
use aes::cipher::{InnerIvInit as _, KeyInit as _, StreamCipher, StreamCipherSeek};
use chacha20::XChaCha20;
use chacha20::cipher::KeyIvInit as _;
use ctr::cipher::StreamCipherCoreWrapper;
use ctr::{CtrCore, flavors};

use super::heads::HEAD_BYTES;
use super::{StoreKey, StoreKeys};
use crate::object::Checksum;

/// Bytes of the nonce of a file.
pub(super) const NONCE_BYTES: usize = 24;
const MARK_BYTES: usize = 8;

/// Bytes of the keystream of XChaCha20, whose counter has 32 bits for blocks of 64 bytes.
const MAX_XCHACHA20_BYTES: u64 = 1 << 38;

/// Random bytes of a file, different for every file.
pub(super) type Nonce = [u8; NONCE_BYTES];

/// The cipher that enciphers the files of a store. Each key is for one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreCipher {
    /// Fast on every processor.
    XChaCha20,
    /// Several times faster where the processor has instructions for it, and slower elsewhere.
    Aes256Ctr,
}

impl StoreCipher {
    /// Every cipher.
    pub const ALL: [Self; 2] = [Self::XChaCha20, Self::Aes256Ctr];

    /// Returns the name of the cipher in the text of keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::XChaCha20 => "xchacha20",
            Self::Aes256Ctr => "aes-256-ctr",
        }
    }

    /// Returns the fastest cipher on this processor, for a new key.
    #[must_use]
    pub fn fastest() -> Self {
        // On other architectures the library does not use AES instructions.
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        if std::arch::is_x86_feature_detected!("aes") {
            return Self::Aes256Ctr;
        }
        Self::XChaCha20
    }
}

/// The cipher of one file.
pub(super) struct FileCipher {
    key: StoreKey,
    keystream: Keystream,
    head: [u8; HEAD_BYTES],
}

/// The keystream of one file.
enum Keystream {
    XChaCha20 {
        secret: [u8; 32],
        nonce: Nonce,
    },
    /// With a key for this file only, so that its counter starts at 0.
    Aes256Ctr(Box<Aes256Enc>),
}

impl FileCipher {
    pub(super) fn new(key: &StoreKey, nonce: Nonce) -> Self {
        let mut secret = Checksum::new("turntree v1 file key");
        secret.update(&key.secret());
        let keystream = match key.cipher() {
            StoreCipher::XChaCha20 => Keystream::XChaCha20 { secret: secret.finish(), nonce },
            StoreCipher::Aes256Ctr => {
                let own = secret.update(&nonce).finish();
                Keystream::Aes256Ctr(Box::new(Aes256Enc::new(&own.into())))
            }
        };
        let mut head = [0; HEAD_BYTES];
        let copy = [&nonce[..], &file_mark(key, &nonce)[..]].concat();
        for (byte, copied) in head.iter_mut().zip(copy.iter().cycle()) {
            *byte = *copied;
        }
        Self { key: *key, keystream, head }
    }

    /// Returns the cipher of a file with this head, if the head matches one of these keys.
    pub(super) fn from_head(keys: &StoreKeys, head: &[u8]) -> Option<Self> {
        head.chunks_exact(NONCE_BYTES + MARK_BYTES).find_map(|copy| {
            let (nonce, found) = copy.split_first_chunk::<NONCE_BYTES>()?;
            let key = keys.iter().find(|key| file_mark(key, nonce) == *found)?;
            Some(Self::new(key, *nonce))
        })
    }

    pub(super) fn head(&self) -> &[u8; HEAD_BYTES] {
        &self.head
    }

    /// Returns true if the file is enciphered with this key.
    pub(super) fn is_of(&self, key: &StoreKey) -> bool {
        self.key == *key
    }

    /// Combines `bytes` with the keystream from `offset`, which enciphers or deciphers them.
    ///
    /// # Errors
    /// When the file would be longer than the keystream, which is 256 GiB for XChaCha20.
    pub(super) fn apply(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match &self.keystream {
            Keystream::XChaCha20 { secret, nonce } => {
                // The library restarts the keystream at its end if one piece crosses it.
                let end = offset.checked_add(bytes.len() as u64);
                if end.is_none_or(|end| end > MAX_XCHACHA20_BYTES) {
                    return Err(length_error());
                }
                apply_keystream(XChaCha20::new(secret.into(), nonce.into()), bytes, offset)
            }
            Keystream::Aes256Ctr(cipher) => {
                apply_keystream(keystream_at((**cipher).clone(), [0; 16]), bytes, offset)
            }
        }
    }
}

/// Returns the keystream of a counter that starts at `first`.
fn keystream_at(
    cipher: Aes256Enc,
    first: [u8; 16],
) -> StreamCipherCoreWrapper<CtrCore<Aes256Enc, flavors::Ctr128BE>> {
    StreamCipherCoreWrapper::from_core(CtrCore::inner_iv_init(cipher, &first.into()))
}

fn apply_keystream(
    mut cipher: impl StreamCipher + StreamCipherSeek,
    bytes: &mut [u8],
    offset: u64,
) -> io::Result<()> {
    cipher.try_seek(offset).map_err(|_| length_error())?;
    cipher.try_apply_keystream(bytes).map_err(|_| length_error())
}

fn length_error() -> io::Error {
    io::Error::new(ErrorKind::FileTooLarge, "an encrypted file of 256 GiB")
}

fn file_mark(key: &StoreKey, nonce: &Nonce) -> [u8; MARK_BYTES] {
    let digest =
        Checksum::new("turntree v1 file mark").update(&key.secret()).update(nonce).finish();
    digest.first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: [u8; 32] = [5; 32];

    fn cipher(cipher: StoreCipher) -> FileCipher {
        FileCipher::new(&StoreKey::of(cipher, BYTES), [6; NONCE_BYTES])
    }

    fn keystream(cipher: &FileCipher, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        cipher.apply(&mut bytes, offset).unwrap();
        bytes
    }

    #[test]
    fn a_keystream_is_the_same_in_any_pieces_and_another_one_for_each_file_and_cipher() {
        let mut seen = Vec::new();
        for kind in StoreCipher::ALL {
            let one = cipher(kind);
            let whole = keystream(&one, 0, 10_000);
            for (from, len) in [(0, 1), (1, 15), (15, 2), (16, 16), (63, 66), (4096, 5904)] {
                let found = keystream(&one, from as u64, len);
                assert_eq!(found, whole[from..from + len], "{kind:?} {from}");
            }
            let far = 1 << 37;
            assert_eq!(keystream(&one, far, 100)[64..], keystream(&one, far + 64, 36));
            let other = FileCipher::new(&StoreKey::of(kind, BYTES), [7; NONCE_BYTES]);
            seen.extend([whole[..32].to_vec(), keystream(&other, 0, 32)]);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn a_keystream_never_begins_again() {
        let end = MAX_XCHACHA20_BYTES;
        let one = cipher(StoreCipher::XChaCha20);
        keystream(&one, end - 4096, 2048);
        for (offset, len) in [(end - 128, 129), (end - 1, 64), (end, 1), (u64::MAX - 2, 3)] {
            let refused = one.apply(&mut vec![0; len], offset).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::FileTooLarge, "{offset} {len}");
        }
        let larger = cipher(StoreCipher::Aes256Ctr);
        assert_ne!(keystream(&larger, end, 64), keystream(&larger, 0, 64));
    }

    #[test]
    fn aes_is_that_of_its_specification() {
        // A counter block of NIST SP 800-38A, F.5.5, computed with the block cipher.
        let key: [u8; 32] = std::array::from_fn(|at| {
            const KEY: &[u8] = b"603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4";
            u8::from_str_radix(std::str::from_utf8(&KEY[at * 2..at * 2 + 2]).unwrap(), 16).unwrap()
        });
        let counter: [u8; 16] = std::array::from_fn(|at| 0xf0 + u8::try_from(at).unwrap());
        let mut stream = keystream_at(Aes256Enc::new(&key.into()), counter);
        let mut block = [0x6b, 0xc1, 0xbe, 0xe2];
        stream.apply_keystream(&mut block);
        assert_eq!(block, [0x60, 0x1e, 0xc3, 0x13]);
    }
}
