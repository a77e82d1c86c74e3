//! HTTP on the port: routes, authentication, origins, what a head may be, and frames.

mod auth;
mod frames;
mod logs;
mod metrics;
mod origins;
mod routes;
mod startup;
