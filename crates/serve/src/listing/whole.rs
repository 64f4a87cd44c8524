//! All entries of a folder in one document, for programs: it is written while it is sent, piece by
//! piece, out of the folder in memory, so that its length does not count.
//!
//! A piece in a content coding is compressed on its own: what a slow client keeps between two
//! pieces is a place in the folder and a checksum, and no window of a compressor.

use std::sync::Arc;

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use thalweg_tier::{BodyPiece, FolderPieces, Reader, Wake};

use super::folder::Folder;
use super::frame::{Frame, Shown};
use super::index::Places;
use super::style::Style;
use super::view::{Format, View};
use super::{json, page};
use crate::content::relay::MadeBody;

/// A piece is as long as this before it is compressed, or an entry longer.
const PIECE_BYTES: usize = 32 << 10;

/// The level of gzip: a loop compresses between two sends, so that time counts more than bytes.
const COMPRESSION_LEVEL: u32 = 1;

/// The header of a gzip member without a name or a time (RFC 1952, 2.3).
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// All entries of a view of a folder.
pub(super) struct Whole {
    folder: Arc<Folder>,
    style: Arc<Style>,
    format: Format,
    places: Places,
    frame: Frame,
    has_digests: bool,
}

impl Whole {
    /// The entries of a view. `path` is the folder's on the site. Sorting may take long.
    pub(super) fn new(folder: &Arc<Folder>, path: &[u8], style: &Arc<Style>, view: View) -> Self {
        let places = folder.index.places(view);
        let shown = Shown { view, pages: 1, matching: places.len() };
        let frame = match view.format {
            Format::Html => page::frame(folder, path, shown),
            Format::Json => json::frame(folder, path, shown),
        };
        let has_digests = folder.index.has_digests();
        Self { folder: Arc::clone(folder), style: Arc::clone(style), format: view.format, places, frame, has_digests }
    }

    /// The document in pieces, as it is or by gzip.
    pub(super) fn pieces(self: Arc<Self>, is_gzip: bool) -> Pieces {
        Pieces { whole: self, next: Next::Before, gzip: is_gzip.then(Gzip::default) }
    }

    /// Bytes of memory held beside the folder.
    pub(super) fn bytes(&self) -> usize {
        self.places.bytes() + self.frame.before.len() + self.frame.after.len()
    }

    fn push_entry(&self, place: usize, out: &mut String) {
        let item = self.folder.index.at(&self.places, place);
        match self.format {
            Format::Html => page::push_row(item, self.style.name_width, self.has_digests, out),
            Format::Json => json::push_entry(item, place == 0, out),
        }
    }
}

/// The pieces of a document, each of at least one byte.
pub(super) struct Pieces {
    whole: Arc<Whole>,
    next: Next,
    gzip: Option<Gzip>,
}

/// The part of a document that comes next.
enum Next {
    Before,
    Entry(usize),
    Nothing,
}

impl Iterator for Pieces {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let text = self.text()?;
        let is_last = matches!(self.next, Next::Nothing);
        Some(match &mut self.gzip {
            Some(gzip) => gzip.compress(text.as_bytes(), is_last).into(),
            None => text.into(),
        })
    }
}

impl Pieces {
    fn text(&mut self) -> Option<String> {
        let mut out = String::with_capacity(PIECE_BYTES + (4 << 10));
        let mut place = match self.next {
            Next::Before => {
                out.push_str(&self.whole.frame.before);
                0
            }
            Next::Entry(place) => place,
            Next::Nothing => return None,
        };
        while place < self.whole.places.len() && out.len() < PIECE_BYTES {
            self.whole.push_entry(place, &mut out);
            place += 1;
        }
        self.next = Next::Entry(place);
        if place == self.whole.places.len() {
            out.push_str(&self.whole.frame.after);
            self.next = Next::Nothing;
        }
        Some(out)
    }
}

/// A gzip member that is written in pieces.
#[derive(Default)]
struct Gzip {
    checksum: Crc,
}

impl Gzip {
    /// The next piece: a part of a deflate stream that ends at a byte and refers to no other.
    fn compress(&mut self, text: &[u8], is_last: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() / 4 + 64);
        if self.checksum.amount() == 0 {
            out.extend_from_slice(&GZIP_HEADER);
        }
        self.checksum.update(text);
        let mut compress = Compress::new(Compression::new(COMPRESSION_LEVEL), false);
        let flush = if is_last { FlushCompress::Finish } else { FlushCompress::Sync };
        loop {
            out.reserve(4 << 10);
            let read = usize::try_from(compress.total_in()).unwrap_or(text.len());
            let status = compress.compress_vec(&text[read..], &mut out, flush);
            // Room is left only if all was written.
            if matches!(status, Ok(Status::StreamEnd) | Err(_)) || (!is_last && out.len() < out.capacity()) {
                break;
            }
        }
        if is_last {
            out.extend_from_slice(&self.checksum.sum().to_le_bytes());
            out.extend_from_slice(&self.checksum.amount().to_le_bytes());
        }
        out
    }
}

impl FolderPieces for Pieces {
    fn next(&mut self) -> Option<Bytes> {
        Iterator::next(self)
    }
}

/// A document as the body of a response of a loop.
pub(super) struct WholeBody {
    pub(super) whole: Arc<Whole>,
    pub(super) is_gzip: bool,
}

impl MadeBody for WholeBody {
    fn reader(&self) -> Box<dyn Reader> {
        Box::new(LoopReader { pieces: Arc::clone(&self.whole).pieces(self.is_gzip), rests: false })
    }

    fn bytes(&self) -> usize {
        if self.is_gzip { 0 } else { self.whole.bytes() }
    }
}

/// A reader on a loop. Compressed pieces are short and take long: after each of them the loop turns
/// to other connections.
struct LoopReader {
    pieces: Pieces,
    rests: bool,
}

impl Reader for LoopReader {
    fn next(&mut self, wake: Wake) -> BodyPiece {
        if self.rests {
            self.rests = false;
            wake();
            return BodyPiece::Pending;
        }
        self.rests = self.pieces.gzip.is_some();
        Iterator::next(&mut self.pieces).map_or(BodyPiece::End, BodyPiece::Bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::config::ListingStyle;
    use crate::listing::index::{Builder, Item, Kind};
    use crate::listing::view::Extent;

    /// A folder of so many files, and a style that shows all of them on one page.
    fn folder(files: usize) -> (Arc<Folder>, Arc<Style>) {
        let mut builder = Builder::new(true, 64 << 20);
        for number in 0..files {
            let name = format!("file {} <{number}>", number % 7);
            let item =
                Item { name: name.as_bytes(), kind: Kind::File, size: 5, modified_s: 1_700_000_000, digest: None };
            builder.push(item, 0);
        }
        let style = ListingStyle { page_entries: 10_000, ..ListingStyle::default() };
        (Arc::new(Folder::of_index(builder.finish())), Arc::new(Style::compile(&style).unwrap()))
    }

    fn pieces(files: usize, query: &str, is_gzip: bool) -> Vec<Bytes> {
        let (folder, style) = folder(files);
        let view = View::parse(Some(query.as_bytes()), false);
        Arc::new(Whole::new(&folder, b"/pub/", &style, view)).pieces(is_gzip).collect()
    }

    #[test]
    fn all_pieces_together_are_the_document_of_one_page() {
        for files in [0, 1, 9_000] {
            for query in ["format=json", "format=json&filter=6&sort=size", "format=json&filter=nowhere"] {
                let text = pieces(files, query, false).concat();
                let (folder, style) = folder(files);
                let view = View::parse(Some(query.as_bytes()), true);
                let page = json::json(&folder, b"/pub/", Shown::page(&folder, &style, view).unwrap());
                assert!(text == page.as_bytes(), "{files} {query}");
            }
            let text = String::from_utf8(pieces(files, "order=desc", false).concat()).unwrap();
            assert_eq!(text.matches("\n<tr><th scope=\"row\"><a href").count(), files);
            assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</body></html>"));
            assert!(!text.contains("?sort=") && !text.contains("<form"), "programs would follow the links");
        }
    }

    #[test]
    fn a_compressed_document_is_one_member_whose_pieces_are_bounded() {
        for (files, query) in [(0, "format=json"), (9_000, "format=json"), (9_000, "")] {
            let plain = pieces(files, query, false);
            let packed = pieces(files, query, true);
            assert_eq!(plain.len(), packed.len());
            assert!(plain.iter().chain(&packed).all(|piece| !piece.is_empty() && piece.len() < PIECE_BYTES + 8192));
            let mut text = Vec::new();
            let packed = packed.concat();
            let mut decoder = flate2::bufread::GzDecoder::new(&packed[..]);
            decoder.read_to_end(&mut text).unwrap();
            assert!(text == plain.concat(), "{files} {query}");
            assert!(decoder.into_inner().is_empty(), "nothing follows the member");
        }
    }

    #[test]
    fn a_loop_turns_to_others_between_compressed_pieces() {
        let (folder, style) = folder(9_000);
        let view = View { extent: Extent::Whole, ..View::default() };
        let whole = Arc::new(Whole::new(&folder, b"/", &style, view));
        for is_gzip in [false, true] {
            let mut reader = WholeBody { whole: Arc::clone(&whole), is_gzip }.reader();
            for _ in 0..3 {
                assert!(matches!(reader.next(Box::new(|| {})), BodyPiece::Bytes(_)));
                if is_gzip {
                    let (told, tells) = std::sync::mpsc::channel();
                    assert!(matches!(reader.next(Box::new(move || told.send(()).unwrap())), BodyPiece::Pending));
                    assert_eq!(tells.try_recv(), Ok(()), "it is woken");
                }
            }
        }
    }
}
