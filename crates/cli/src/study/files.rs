//! Pages and figures as files.

use sooner_record::replace_file;
use sooner_report::Asset;
use std::io::Write;
use std::path::Path;

/// Writes a page or a file beside it.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    Ok(replace_file(path, |file| file.write_all(text.as_bytes()))?)
}

/// Writes figures into the folder `PAGE-assets` beside the page.
pub(crate) fn assets(page: &Path, assets: &[Asset]) -> anyhow::Result<Vec<String>> {
    let stem = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let folder = page.with_file_name(format!("{stem}-assets"));
    std::fs::create_dir_all(&folder)?;
    let mut written = Vec::new();
    for asset in assets {
        let path = folder.join(&asset.name);
        write(&path, &asset.text)?;
        written.push(path.display().to_string());
    }
    Ok(written)
}
