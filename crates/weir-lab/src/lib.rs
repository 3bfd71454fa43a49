//! Start, wait for and stop brokers and SDK drivers on this machine.
