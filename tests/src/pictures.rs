//! Compares pictures of pages with stored ones.
//!
//! Systems have different fonts, so text is drawn in a font of the kit in which every character is
//! a block of one width (`blocks.ttf`, 724 bytes). So lines break at the same words everywhere, and
//! a picture shows the position, size and brightness of everything. Pictures are small and grey, a
//! cell for ten by ten pixels, and may differ a little: browsers differ in antialiasing.
//! `UPDATE_GOLDENS=1` writes them; inspect each that changed.

use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::browser::Browser;

const FONT: &[u8] = include_bytes!("pictures/blocks.ttf");

/// True on a page whose text is drawn in blocks.
const IN_BLOCKS: &str = "document.fonts.check('12px Blocks')";

/// The allowed average difference of brightness, and the allowed share of cells that differ much.
const MOST_OFF: f64 = 4.0;
const MOST_OTHERS: f64 = 0.025;

/// Draws all text in blocks from the start of a page. The braces keep its names apart from the
/// page's: the scripts of a served page share one scope.
const BLOCKS: &str = "{
const face = new FontFace('Blocks', Uint8Array.from(atob('FONT'), (sign) => sign.charCodeAt(0)));
face.load().then(() => document.fonts.add(face));
const sheet = new CSSStyleSheet();
sheet.replaceSync('* { font-family: Blocks !important; caret-color: transparent; transition: none !important; }');
document.adoptedStyleSheets = [sheet];
window.cellsOf = async (png) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  return { width: image.width, height: image.height, data: context.getImageData(0, 0, image.width, image.height).data };
};
window.shrunk = async (png) => {
  const { width, height, data } = await cellsOf(png);
  const [columns, rows] = [Math.floor(width / 10), Math.floor(height / 10)];
  const cells = new Float64Array(columns * rows);
  for (let y = 0; y < rows * 10; y += 1) {
    for (let x = 0; x < columns * 10; x += 1) {
      const at = 4 * (y * width + x);
      cells[Math.floor(y / 10) * columns + Math.floor(x / 10)] += (data[at] * 3 + data[at + 1] * 6 + data[at + 2]) / 1000;
    }
  }
  return { columns, rows, cells };
};
window.compared = async (png, golden) => {
  const [{ columns, rows, cells }, known] = [await shrunk(png), await cellsOf(golden)];
  if (known.width !== columns || known.height !== rows) return { off: 255, others: 1 };
  let [off, others] = [0, 0];
  cells.forEach((cell, at) => {
    const by = Math.abs(cell - known.data[4 * at]);
    off += by;
    if (by > 32) others += 1;
  });
  return { off: off / cells.length, others: others / cells.length };
};
window.kept = async (png) => {
  const { columns, rows, cells } = await shrunk(png);
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [columns, rows];
  const context = canvas.getContext('2d');
  const image = context.createImageData(columns, rows);
  cells.forEach((cell, at) => image.data.set([cell, cell, cell, 255], 4 * at));
  context.putImageData(image, 0, 0);
  return canvas.toDataURL('image/png').split(',')[1];
};
}";

/// The pictures of a folder, and the pages that differ from them.
pub struct Pictures {
    folder: PathBuf,
    wrong: Vec<String>,
}

impl Pictures {
    /// The pictures in a folder. From now on the browser draws text in blocks.
    #[must_use]
    pub fn of(folder: impl Into<PathBuf>, browser: &mut Browser) -> Self {
        browser.before(&BLOCKS.replace("FONT", &STANDARD.encode(FONT)));
        Self { folder: folder.into(), wrong: Vec::new() }
    }

    /// Compares the page with its pictures of this name, in the light and the dark theme.
    pub fn look(&mut self, browser: &mut Browser, name: &str) {
        browser.wait(IN_BLOCKS);
        for theme in ["light", "dark"] {
            browser.prefer("prefers-color-scheme", theme);
            self.compare(browser, &format!("{name}-{theme}"));
        }
    }

    /// # Panics
    /// If a page differs from its picture.
    pub fn end(self) {
        let none: [String; 0] = [];
        assert_eq!(self.wrong, none, "UPDATE_GOLDENS=1 writes pictures to look at");
    }

    /// Compares a screen with its picture, or writes the picture.
    fn compare(&mut self, browser: &mut Browser, name: &str) {
        let file = self.folder.join(name).with_extension("png");
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            let mut shot = browser.screenshot();
            while browser.ask("1") == json!(1) {
                let before = std::mem::replace(&mut shot, browser.screenshot());
                if before == shot {
                    break;
                }
            }
            let kept = browser.ask(&format!("kept('{shot}')"));
            fs::write(file, STANDARD.decode(kept.as_str().unwrap()).unwrap()).unwrap();
            return;
        }
        let Ok(known) = fs::read(file) else {
            self.wrong.push(format!("{name}: no picture"));
            return;
        };
        let known = STANDARD.encode(known);
        let mut compared = Value::Null;
        // The last change may not be drawn yet.
        for _ in 0..10 {
            let shot = browser.screenshot();
            compared = browser.ask(&format!("compared('{shot}', '{known}')"));
            let at_most =
                |name: &str, most: f64| compared[name].as_f64().is_some_and(|it| it <= most);
            if at_most("off", MOST_OFF) && at_most("others", MOST_OTHERS) {
                return;
            }
        }
        self.wrong.push(format!("{name}: {compared}"));
    }
}
