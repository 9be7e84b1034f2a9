//! Makes the bundled price list from LiteLLM's: `snapshot_prices FILE DATE SOURCE > prices.json.gz`.

use std::error::Error;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use tapri_insight::prices::{file, litellm};

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(date), Some(source)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: snapshot_prices FILE DATE SOURCE > prices.json.gz".into());
    };
    let book = litellm::read(&path, &std::fs::read_to_string(&path)?, "bundled")?;
    let book = book.labelled("bundled", date.parse()?, &source);
    let mut out = GzEncoder::new(std::io::stdout().lock(), Compression::best());
    out.write_all(file::to_json(&book).to_string().as_bytes())?;
    out.finish()?.flush()?;
    Ok(())
}
