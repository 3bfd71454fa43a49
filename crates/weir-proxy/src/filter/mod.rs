//! What may look into record batches on their way, and change them.
