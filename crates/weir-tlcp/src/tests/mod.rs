//! Property tests that use the bodies of the fuzz targets.

mod diffs;
mod properties;
