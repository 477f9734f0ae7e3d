//! The answers of S3: objects with conditions, parts, listings, deletions. One lock makes
//! conditional writes atomic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::SystemTime;

use turntree::object::Checksum;

use super::http::{Answered, Asked};

/// Objects of a page of a listing.
const PAGE: usize = 1000;

/// The objects of a server by `bucket/key`, and the parts of unfinished uploads.
#[derive(Debug, Clone, Default)]
pub(super) struct Storage {
    pub(super) buckets: BTreeSet<String>,
    pub(super) objects: BTreeMap<String, Vec<u8>>,
    parts: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    uploads: u64,
    /// True if it ignores the conditions of writes, as some storages do.
    pub(super) ignores_conditions: bool,
}

impl Storage {
    pub(super) fn answer(&mut self, asked: &Asked) -> Answered {
        let path = asked.path.trim_start_matches('/').to_owned();
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        if bucket.is_empty() {
            return Answered::error(405, "MethodNotAllowed");
        }
        if key.is_empty() && asked.method == "PUT" {
            self.buckets.insert(bucket.to_owned());
            return Answered::new(200);
        }
        if !self.buckets.contains(bucket) {
            return Answered::error(404, "NoSuchBucket");
        }
        let has = |name: &str| asked.query.contains_key(name);
        match (asked.method.as_str(), key) {
            ("HEAD", "") => Answered::new(200),
            ("GET", "") if has("location") => Answered::xml(200, "<LocationConstraint/>"),
            ("GET", "") => self.list(bucket, asked),
            ("POST", "") if has("delete") => self.delete_many(bucket, &asked.body),
            ("GET" | "HEAD", _) => self.get(&path, asked),
            ("PUT", _) if has("partNumber") => self.part(asked),
            ("PUT", _) => self.put(&path, asked),
            ("POST", _) if has("uploads") => self.begin(bucket, key),
            ("POST", _) => self.complete(&path, asked),
            ("DELETE", _) if has("uploadId") => {
                self.parts.remove(&asked.query["uploadId"]);
                Answered::new(204)
            }
            ("DELETE", _) => {
                self.objects.remove(&path);
                Answered::new(204)
            }
            _ => Answered::error(405, "MethodNotAllowed"),
        }
    }

    fn get(&self, path: &str, asked: &Asked) -> Answered {
        let Some(bytes) = self.objects.get(path) else { return Answered::error(404, "NoSuchKey") };
        let tag = e_tag(bytes);
        if asked.headers.get("if-none-match") == Some(&tag) {
            return Answered::new(304).with("ETag", tag);
        }
        if asked.headers.get("if-match").is_some_and(|wanted| *wanted != tag) {
            return Answered::error(412, "PreconditionFailed");
        }
        let range = asked.headers.get("range").and_then(|range| range.strip_prefix("bytes="));
        let (status, range) = match range.map(|range| ends(range, bytes.len())) {
            None => (200, 0..bytes.len()),
            Some(Some(range)) => (206, range),
            Some(None) => return Answered::error(416, "InvalidRange"),
        };
        let mut answer = Answered::new(status)
            .with("ETag", tag)
            .with("Last-Modified", http_date(now()))
            .with("Accept-Ranges", "bytes");
        if status == 206 {
            let last = range.end - 1;
            let value = format!("bytes {}-{last}/{}", range.start, bytes.len());
            answer = answer.with("Content-Range", value);
        }
        if asked.method == "HEAD" {
            answer = answer.with("Content-Length", range.len().to_string());
        }
        answer.body = bytes[range].to_vec();
        answer
    }

    fn put(&mut self, path: &str, asked: &Asked) -> Answered {
        if let Some(refused) = self.refusal(path, asked) {
            return refused;
        }
        let source = asked.headers.get("x-amz-copy-source");
        let bytes = match source {
            Some(source) => match self.objects.get(source.trim_start_matches('/')) {
                Some(bytes) => bytes.clone(),
                None => return Answered::error(404, "NoSuchKey"),
            },
            None => asked.body.clone(),
        };
        let tag = e_tag(&bytes);
        self.objects.insert(path.to_owned(), bytes);
        let answer = match source {
            Some(_) => Answered::xml(
                200,
                &format!(
                    "<CopyObjectResult><ETag>{tag}</ETag><LastModified>2026-11-25T12:00:00.000Z</LastModified></CopyObjectResult>"
                ),
            ),
            None => Answered::new(200),
        };
        answer.with("ETag", tag)
    }

    /// The refusal of a write whose condition does not hold.
    fn refusal(&self, path: &str, asked: &Asked) -> Option<Answered> {
        let there = self.objects.get(path);
        if self.ignores_conditions {
            return None;
        }
        if asked.headers.contains_key("if-none-match") && there.is_some() {
            return Some(Answered::error(412, "PreconditionFailed"));
        }
        let wanted = asked.headers.get("if-match")?;
        match there {
            None => Some(Answered::error(404, "NoSuchKey")),
            Some(bytes) if e_tag(bytes) != *wanted => {
                Some(Answered::error(412, "PreconditionFailed"))
            }
            Some(_) => None,
        }
    }

    fn begin(&mut self, bucket: &str, key: &str) -> Answered {
        self.uploads += 1;
        let id = format!("upload-{}", self.uploads);
        self.parts.insert(id.clone(), BTreeMap::new());
        let body = format!(
            "<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{}</Key><UploadId>{id}</UploadId></InitiateMultipartUploadResult>",
            escaped(key)
        );
        Answered::xml(200, &body)
    }

    fn part(&mut self, asked: &Asked) -> Answered {
        let number = asked.query["partNumber"].parse().unwrap_or_default();
        let id = asked.query.get("uploadId").map(String::as_str).unwrap_or_default();
        let Some(parts) = self.parts.get_mut(id) else {
            return Answered::error(404, "NoSuchUpload");
        };
        parts.insert(number, asked.body.clone());
        Answered::new(200).with("ETag", e_tag(&asked.body))
    }

    fn complete(&mut self, path: &str, asked: &Asked) -> Answered {
        if let Some(refused) = self.refusal(path, asked) {
            return refused;
        }
        let id = asked.query.get("uploadId").map(String::as_str).unwrap_or_default();
        let Some(parts) = self.parts.remove(id) else {
            return Answered::error(404, "NoSuchUpload");
        };
        let bytes = parts.into_values().flatten().collect::<Vec<u8>>();
        let tag = format!("\"{}-parts\"", e_tag(&bytes).trim_matches('"'));
        self.objects.insert(path.to_owned(), bytes);
        let (bucket, key) = path.split_once('/').unwrap_or_default();
        let body = format!(
            "<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{}</Key><ETag>{}</ETag></CompleteMultipartUploadResult>",
            escaped(key),
            escaped(&tag)
        );
        Answered::xml(200, &body)
    }

    fn delete_many(&mut self, bucket: &str, body: &[u8]) -> Answered {
        let text = String::from_utf8_lossy(body);
        let mut deleted = String::from("<DeleteResult>");
        for key in text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
            let plain = key.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
            self.objects.remove(&format!("{bucket}/{plain}"));
            let _ = write!(deleted, "<Deleted><Key>{key}</Key></Deleted>");
        }
        deleted.push_str("</DeleteResult>");
        Answered::xml(200, &deleted)
    }

    fn list(&self, bucket: &str, asked: &Asked) -> Answered {
        let query = |name: &str| asked.query.get(name).map(String::as_str).unwrap_or_default();
        let (prefix, delimiter) = (query("prefix"), query("delimiter"));
        let after = query("start-after").max(query("continuation-token"));
        let most = query("max-keys").parse().unwrap_or(PAGE).min(PAGE);
        let root = format!("{bucket}/");
        let (mut contents, mut folders, mut listed) = (String::new(), BTreeSet::new(), 0);
        let (mut last, mut is_cut) = (String::new(), false);
        for (path, bytes) in self.objects.range(format!("{root}{prefix}")..) {
            let Some(key) = path.strip_prefix(&root).filter(|key| key.starts_with(prefix)) else {
                break;
            };
            if key <= after && !after.is_empty() {
                continue;
            }
            let inner = &key[prefix.len()..];
            let folder = (!delimiter.is_empty()).then(|| inner.split_once(delimiter)).flatten();
            let folder = folder.map(|(folder, _)| format!("{prefix}{folder}{delimiter}"));
            if folder
                .as_ref()
                .is_some_and(|folder| folders.contains(folder) || folder.as_str() <= after)
            {
                continue;
            }
            if listed == most {
                is_cut = true;
                break;
            }
            listed += 1;
            last = folder.clone().unwrap_or_else(|| key.to_owned());
            match folder {
                Some(folder) => drop(folders.insert(folder)),
                None => {
                    let _ = write!(
                        contents,
                        "<Contents><Key>{}</Key><LastModified>2026-11-25T12:00:00.000Z</LastModified><ETag>{}</ETag><Size>{}</Size><StorageClass>STANDARD</StorageClass></Contents>",
                        escaped(key),
                        escaped(&e_tag(bytes)),
                        bytes.len()
                    );
                }
            }
        }
        for folder in folders {
            let _ = write!(
                contents,
                "<CommonPrefixes><Prefix>{}</Prefix></CommonPrefixes>",
                escaped(&folder)
            );
        }
        if is_cut {
            let _ = write!(
                contents,
                "<NextContinuationToken>{}</NextContinuationToken>",
                escaped(&last)
            );
        }
        let body = format!(
            "<ListBucketResult><Name>{bucket}</Name><Prefix>{}</Prefix><KeyCount>{listed}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{is_cut}</IsTruncated>{contents}</ListBucketResult>",
            escaped(prefix)
        );
        Answered::xml(200, &body)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A time in the format of HTTP. Clients compare it with their own clock: icechunk refuses a
/// storage whose clock differs.
fn http_date(seconds: u64) -> String {
    const MONTHS: [(&str, u64); 12] = [
        ("Jan", 31),
        ("Feb", 28),
        ("Mar", 31),
        ("Apr", 30),
        ("May", 31),
        ("Jun", 30),
        ("Jul", 31),
        ("Aug", 31),
        ("Sep", 30),
        ("Oct", 31),
        ("Nov", 30),
        ("Dec", 31),
    ];
    let (mut days, rest) = (seconds / 86_400, seconds % 86_400);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][(days % 7) as usize];
    let leap = |year: u64| {
        let is_leap = year.is_multiple_of(4) && !year.is_multiple_of(100);
        u64::from(is_leap || year.is_multiple_of(400))
    };
    let mut year = 1970;
    while days >= 365 + leap(year) {
        days -= 365 + leap(year);
        year += 1;
    }
    let mut name = "";
    for (month, length) in MONTHS {
        let length = length + if month == "Feb" { leap(year) } else { 0 };
        name = month;
        if days < length {
            break;
        }
        days -= length;
    }
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{weekday}, {:02} {name} {year} {hour:02}:{minute:02}:{second:02} GMT", days + 1)
}

/// The bytes that a range selects of `length` bytes.
fn ends(range: &str, length: usize) -> Option<std::ops::Range<usize>> {
    let (first, last) = range.split_once('-')?;
    if first.is_empty() {
        let back: usize = last.parse().ok()?;
        return (back > 0 && length > 0).then(|| length.saturating_sub(back)..length);
    }
    let first: usize = first.parse().ok()?;
    let end = if last.is_empty() { length } else { last.parse::<usize>().ok()?.saturating_add(1) };
    (first < length).then(|| first..end.min(length).max(first + 1))
}

/// The ETag, derived from the bytes as in S3.
fn e_tag(bytes: &[u8]) -> String {
    let mut checksum = Checksum::new("turntree tests, ETag of an object");
    checksum.update(bytes);
    let hash = checksum.finish();
    let hex: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_the_calendar() {
        for (seconds, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_798_761_599, "Thu, 31 Dec 2026 23:59:59 GMT"),
        ] {
            assert_eq!(http_date(seconds), date);
        }
    }
}
