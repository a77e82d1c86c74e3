//! The envelope, over both transports: ids, batches, malformed JSON, errors that name the member.

mod envelope;
mod ids;
mod params;
mod session;
