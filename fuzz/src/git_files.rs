//! Small git repositories described by an input: loose objects or a pack, and files.
//!
//! ```text
//! input    | packed 1 | part | 0x1e | part | ...
//! part     b, t, c, a content     an object: blob, tree, commit, tag; the first is A, the next B
//!          ! letter kind content  an object that lies where that of the letter should
//!          d letter content       in a pack: changes of the object of that letter, at the small letter
//!          f path \n content      a file of the repository
//!          ? name                 the name: a branch, a tag, an id
//! content  0x01 letter is the id of an object in digits, 0x02 letter its bytes
//! ```
//!
//! Ids, lengths and checksums are valid, so mutations reach the code after these checks. A letter
//! without an object has an id of no object, unless a part with `!` or `d` defines it.

use std::fs;
use std::path::{Component, Path};

use gix::objs::Kind as GitKind;

/// Ends a part.
pub const END: u8 = 0x1e;

/// Precedes a letter that represents the id of its object as digits.
pub const DIGITS: u8 = 1;

/// Precedes a letter that represents the bytes of that id.
pub const BYTES: u8 = 2;

/// The letter of the first object.
const FIRST: u8 = b'A';

type Id = [u8; 20];

/// A repository, and the requested revisions.
pub(crate) struct Described {
    packed: bool,
    objects: Vec<Object>,
    files: Vec<(String, Vec<u8>)>,
    /// The revisions to import.
    pub(crate) asked: Vec<String>,
}

/// An object, and its form.
struct Object {
    id: Id,
    form: Form,
    content: Vec<u8>,
    /// Number of files that it claims to hold.
    claims: u64,
}

#[derive(Clone, Copy)]
enum Form {
    Whole(GitKind),
    /// A delta against another object.
    Delta(Id),
}

impl Described {
    pub(crate) fn read(input: &[u8]) -> Self {
        let (packed, rest) = input.split_first().unwrap_or((&0, &[]));
        let mut read =
            Self { packed: packed % 2 == 1, objects: vec![], files: vec![], asked: vec![] };
        let mut letters: Vec<usize> = Vec::new();
        for part in rest.split(|byte| *byte == END) {
            read.part(part, &mut letters);
        }
        read
    }

    /// Returns the number of files that the trees of all commits claim to hold.
    pub(crate) fn claimed(&self) -> u64 {
        let commits =
            self.objects.iter().filter(|it| matches!(it.form, Form::Whole(GitKind::Commit)));
        commits.fold(0, |sum, commit| sum.saturating_add(commit.claims))
    }

    fn part(&mut self, part: &[u8], letters: &mut Vec<usize>) {
        match part {
            [b'f', file @ ..] => {
                let mut halves = file.splitn(2, |byte| *byte == b'\n');
                let path = String::from_utf8_lossy(halves.next().unwrap_or_default()).into_owned();
                let content = halves.next().unwrap_or_default();
                let (content, _) = self.filled(content, letters);
                self.files.push((path, content));
            }
            [b'?', name @ ..] => self.asked.push(String::from_utf8_lossy(name).into_owned()),
            [b'!', letter, kind, content @ ..] => {
                if let Some(kind) = kind_of(*kind) {
                    let (content, claims) = self.filled(content, letters);
                    let id = self.id_of(*letter, letters);
                    // The previous object becomes unreachable.
                    self.objects.iter_mut().filter(|it| it.id == id).for_each(|it| it.id = [0; 20]);
                    self.objects.push(Object { id, form: Form::Whole(kind), content, claims });
                }
            }
            [b'd', letter, content @ ..] => {
                let (content, claims) = self.filled(content, letters);
                let form = Form::Delta(self.id_of(*letter, letters));
                let id = [letter.to_ascii_lowercase(); 20];
                self.objects.push(Object { id, form, content, claims });
            }
            [kind, content @ ..] => {
                if let Some(kind) = kind_of(*kind) {
                    let (content, claims) = self.filled(content, letters);
                    let id = hash(kind, &content);
                    letters.push(self.objects.len());
                    self.objects.push(Object { id, form: Form::Whole(kind), content, claims });
                }
            }
            [] => {}
        }
    }

    fn object(&self, letter: u8, letters: &[usize]) -> Option<&Object> {
        let number = letter.checked_sub(FIRST)?;
        self.objects.get(*letters.get(usize::from(number))?)
    }

    fn id_of(&self, letter: u8, letters: &[usize]) -> Id {
        self.object(letter, letters).map_or([letter; 20], |object| object.id)
    }

    /// Returns `content` with letters replaced by ids, and the number of files that their objects
    /// claim to hold.
    fn filled(&self, content: &[u8], letters: &[usize]) -> (Vec<u8>, u64) {
        let (mut filled, mut claims, mut rest) = (Vec::new(), 0_u64, content);
        while let [first, after @ ..] = rest {
            rest = after;
            let ([letter, behind @ ..], DIGITS | BYTES) = (after, *first) else {
                filled.push(*first);
                continue;
            };
            rest = behind;
            let object = self.object(*letter, letters);
            let is_part = object.is_none_or(|it| !matches!(it.form, Form::Whole(GitKind::Commit)));
            if is_part {
                claims = claims.saturating_add(object.map_or(1, |object| object.claims.max(1)));
            }
            let id = self.id_of(*letter, letters);
            match *first {
                DIGITS => filled.extend(hex(&id).bytes()),
                _ => filled.extend(id),
            }
        }
        (filled, claims)
    }

    /// Writes the repository. Skips impossible entries, such as a file below a file.
    pub(crate) fn write(&self, dir: &Path) {
        for folder in ["objects/pack", "refs/heads", "refs/tags"] {
            fs::create_dir_all(dir.join(folder)).expect("room for a folder");
        }
        let put = |path: &str, content: &[u8]| {
            let path = Path::new(path);
            let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
            if is_inside && let Some(folder) = dir.join(path).parent() {
                let _ = fs::create_dir_all(folder);
                let _ = fs::write(dir.join(path), content);
            }
        };
        put("HEAD", b"ref: refs/heads/main\n");
        if self.packed {
            let (pack, index) = self.pack();
            put("objects/pack/pack-1.pack", &pack);
            put("objects/pack/pack-1.idx", &index);
        } else {
            for object in &self.objects {
                if let Form::Whole(kind) = object.form {
                    let head = format!("{kind} {}\0", object.content.len());
                    let id = hex(&object.id);
                    let (folder, name) = id.split_at(2);
                    let bytes = deflated(&[head.as_bytes(), &object.content].concat());
                    put(&format!("objects/{folder}/{name}"), &bytes);
                }
            }
        }
        for (path, content) in &self.files {
            put(path, content);
        }
    }

    /// Returns a pack of the objects, and its index.
    fn pack(&self) -> (Vec<u8>, Vec<u8>) {
        let number = |number: usize| u32::try_from(number).expect("a small input").to_be_bytes();
        let mut pack = [b"PACK\0\0\0\x02".as_slice(), &number(self.objects.len())].concat();
        let mut places: Vec<(Id, usize)> = Vec::new();
        for object in &self.objects {
            places.push((object.id, pack.len()));
            let (kind, base) = match object.form {
                Form::Whole(GitKind::Commit) => (1, None),
                Form::Whole(GitKind::Tree) => (2, None),
                Form::Whole(GitKind::Blob) => (3, None),
                Form::Whole(GitKind::Tag) => (4, None),
                Form::Delta(base) => (7, Some(base)),
            };
            pack.extend(entry_header(kind, object.content.len()));
            pack.extend(base.iter().flatten());
            pack.extend(deflated(&object.content));
        }
        let sum = sha1(&pack);
        pack.extend(sum);
        places.sort_unstable();
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        for first in 0..=255 {
            index.extend(number(places.iter().filter(|(id, _)| id[0] <= first).count()));
        }
        index.extend(places.iter().flat_map(|(id, _)| id));
        index.extend(places.iter().flat_map(|_| [0; 4]));
        index.extend(places.iter().flat_map(|(_, at)| number(*at)));
        index.extend(sum);
        index.extend(sha1(&index));
        (pack, index)
    }
}

fn kind_of(letter: u8) -> Option<GitKind> {
    Some(match letter {
        b'b' => GitKind::Blob,
        b't' => GitKind::Tree,
        b'c' => GitKind::Commit,
        b'a' => GitKind::Tag,
        _ => return None,
    })
}

/// Returns the header of a pack entry.
fn entry_header(kind: u8, len: usize) -> Vec<u8> {
    let low = |len: usize, bits: u8| u8::try_from(len & ((1 << bits) - 1)).expect("few bits");
    let mut header = vec![kind << 4 | low(len, 4)];
    let mut rest = len >> 4;
    while rest > 0 {
        *header.last_mut().expect("it has a byte") |= 0x80;
        header.push(low(rest, 7));
        rest >>= 7;
    }
    header
}

/// Returns `bytes` as stored, uncompressed zlib blocks.
fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut chunks = bytes.chunks(usize::from(u16::MAX)).peekable();
    if bytes.is_empty() {
        out.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(chunk) = chunks.next() {
        let len = u16::try_from(chunk.len()).expect("the length of a chunk");
        out.push(u8::from(chunks.peek().is_none()));
        out.extend(len.to_le_bytes());
        out.extend((!len).to_le_bytes());
        out.extend(chunk);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fn hash(kind: GitKind, content: &[u8]) -> Id {
    let head = format!("{kind} {}\0", content.len());
    sha1(&[head.as_bytes(), content].concat())
}

fn sha1(bytes: &[u8]) -> Id {
    let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
    hasher.update(bytes);
    // Bytes made to collide have no hash.
    let id = hasher.try_finalize().ok();
    id.and_then(|id| id.as_slice().try_into().ok()).unwrap_or_default()
}

fn hex(id: &Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
