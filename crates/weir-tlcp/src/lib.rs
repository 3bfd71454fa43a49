//! TLCP 2.5.0, both ends: codec, session and subscription state machines.
