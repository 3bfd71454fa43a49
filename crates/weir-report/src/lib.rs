//! Text, Markdown, CSV, HTML and plots from run files.
