//! Connector settings, item templates and the extraction language.
