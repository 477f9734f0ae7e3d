//! How every screen of a page looks, in two themes and four widths, beside pictures of it.
//!
//! Systems have other fonts, so text is drawn in one that the test brings: every character is a block of
//! one width (`blocks.ttf`, 724 bytes). So lines break at the same words everywhere, and a picture shows
//! where everything is, how large and how dark. Pictures are kept small and grey, a cell for ten by ten
//! pixels, and may differ a little: browsers smooth edges in their own ways. `UPDATE_GOLDENS=1` writes
//! them; look at each that changed.

use std::fs;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use turntree_tests::browser::Browser;

use super::page_browser::{story, strategies};
use super::page_picture::side_by_side;

const FONT: &[u8] = include_bytes!("page_goldens/blocks.ttf");
const WIDTHS: [u32; 4] = [320, 768, 1024, 1440];
const HEIGHT: u32 = 800;

/// How far the brightness of cells may be off on average, and the share of cells that may be off by much.
const MOST_OFF: f64 = 4.0;
const MOST_OTHERS: f64 = 0.025;

/// Draws all text in blocks, from the beginning of a page on.
const BLOCKS: &str = "
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
};";

fn golden(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("exchange/page_goldens");
    folder.join(name).with_extension("png")
}

/// Compares a screen with its picture, or keeps it as such; says what is wrong.
fn look(browser: &mut Browser, name: &str) -> Option<String> {
    if std::env::var_os("UPDATE_GOLDENS").is_some() {
        let mut shot = browser.screenshot();
        while browser.ask("1") == json!(1) {
            let before = std::mem::replace(&mut shot, browser.screenshot());
            if before == shot {
                break;
            }
        }
        let kept = browser.ask(&format!("kept('{shot}')"));
        fs::write(golden(name), STANDARD.decode(kept.as_str().unwrap()).unwrap()).unwrap();
        return None;
    }
    let Ok(known) = fs::read(golden(name)) else { return Some(format!("{name}: no picture")) };
    let known = STANDARD.encode(known);
    let mut compared = Value::Null;
    // What was asked for may not be drawn yet.
    for _ in 0..10 {
        let shot = browser.screenshot();
        compared = browser.ask(&format!("compared('{shot}', '{known}')"));
        let at_most = |name: &str, most: f64| compared[name].as_f64().is_some_and(|it| it <= most);
        if at_most("off", MOST_OFF) && at_most("others", MOST_OTHERS) {
            return None;
        }
    }
    Some(format!("{name}: {compared}"))
}

#[test]
fn every_screen_looks_as_in_its_picture() {
    let Some(mut browser) = Browser::start() else { return };
    browser.before(&BLOCKS.replace("FONT", &STANDARD.encode(FONT)));
    let ((_one, branches), (_two, told), (_three, many)) =
        (strategies(), story(), side_by_side(24));
    let mut wrong = Vec::new();
    for width in WIDTHS {
        browser.resize(width, HEIGHT);
        for (name, file, place, key) in [
            ("overview", &told, "", ""),
            ("prompt", &told, "#prompt-1", "o"),
            ("read", &branches, "#read", ""),
            ("diff", &branches, "#diff-12..12@plan-b", ""),
            ("compare", &branches, "#compare", ""),
            ("search", &branches, "#search=number%201", ""),
            ("keys", &branches, "#turn-3", "?"),
            ("many", &many, "#turn-5@b05", ""),
        ] {
            browser.open(file, place);
            browser.wait("document.fonts.check('12px Blocks') && (!location.hash.startsWith('#search') || document.querySelector('#view .page').dataset.done === 'true')");
            if !key.is_empty() {
                browser.press(key);
            }
            for theme in ["light", "dark"] {
                browser.prefer("prefers-color-scheme", theme);
                wrong.extend(look(&mut browser, &format!("{name}-{width}-{theme}")));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "UPDATE_GOLDENS=1 writes pictures to look at");
    assert_eq!(browser.problems(), Vec::<String>::new());
}
