//! Histograms, timelines, intervals and the run file format.
