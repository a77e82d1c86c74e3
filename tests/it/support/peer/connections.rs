//! Connections through the server, and what came of them.

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Peer;
use super::message::{RpcError, parse, rpc_error};
use crate::support::link::{Data, Link};
use crate::support::{DEADLINE, base64, unique};

impl Peer {
    /// Asks for a connection, whose id is named if it is not; the request's id, and its own.
    #[track_caller]
    pub(crate) fn begin_connect(&mut self, mut params: Value) -> (String, String) {
        if params["connectionId"].is_null() {
            params["connectionId"] = json!(format!("c{}", unique()));
        }
        let connection = params["connectionId"].as_str().unwrap().to_owned();
        (self.request("net/connect", &params), connection)
    }

    /// Connects; the connection's id and `remoteAddress`.
    #[track_caller]
    pub(crate) fn connect_to(&mut self, params: Value) -> (String, Value) {
        let (id, connection) = self.begin_connect(params);
        match self.answer_within(&id, 2 * DEADLINE) {
            Ok(result) => (connection, result["remoteAddress"].clone()),
            Err(error) => panic!("net/connect failed: {error:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn connect_error(&mut self, params: Value) -> RpcError {
        let (id, _) = self.begin_connect(params);
        match self.answer_within(&id, 2 * DEADLINE) {
            Ok(result) => panic!("net/connect succeeded: {result}"),
            Err(error) => error,
        }
    }

    #[track_caller]
    pub(crate) fn begin_net_write(&mut self, connection: &str, bytes: impl AsRef<[u8]>) -> String {
        let params = json!({"connectionId": connection, "chunk": base64(bytes)});
        self.request("net/write", &params)
    }

    #[track_caller]
    pub(crate) fn net_write(&mut self, connection: &str, bytes: impl AsRef<[u8]>) {
        let id = self.begin_net_write(connection, bytes);
        assert_eq!(self.answer(&id).unwrap(), json!({}));
    }

    #[track_caller]
    pub(crate) fn net_eof(&mut self, connection: &str) {
        let params = json!({"connectionId": connection, "eof": true});
        assert_eq!(self.ok("net/write", &params), json!({}));
    }

    /// The error of a write.
    #[track_caller]
    pub(crate) fn net_write_error(&mut self, connection: &str) -> RpcError {
        self.error("net/write", &json!({"connectionId": connection, "chunk": base64("late")}))
    }

    #[track_caller]
    pub(crate) fn net_close(&mut self, connection: &str) -> bool {
        let result = self.ok("net/close", &json!({"connectionId": connection}));
        result["closed"].as_bool().expect("closed")
    }

    pub(crate) fn net_ack(&mut self, connection: &str, bytes: u64) {
        self.notify("net/ack", &json!({"connectionId": connection, "bytes": bytes}));
    }

    pub(crate) fn link(&mut self, connection: &str) -> &mut Link {
        self.links.get_mut(connection).expect("a known connection")
    }

    /// How many bytes of data have arrived.
    pub(crate) fn net_received(&self, connection: &str) -> usize {
        self.links.get(connection).map_or(0, Link::received)
    }

    /// Waits for so many bytes of data in all.
    #[track_caller]
    pub(crate) fn await_data(&mut self, connection: &str, bytes: usize) {
        let what = format!("{bytes} bytes of {connection}");
        self.wait_until(DEADLINE, &what, |peer| peer.net_received(connection) >= bytes);
    }

    #[track_caller]
    pub(crate) fn await_end_of_data(&mut self, connection: &str) {
        self.await_end_of_data_within(connection, DEADLINE);
    }

    #[track_caller]
    pub(crate) fn await_end_of_data_within(&mut self, connection: &str, limit: Duration) {
        let what = format!("end of the data of {connection}");
        self.wait_until(limit, &what, |peer| peer.links[connection].ended);
    }

    /// Waits for `net/closed`; what it says the connection failed of.
    #[track_caller]
    pub(crate) fn await_closed(&mut self, connection: &str) -> Option<RpcError> {
        let what = format!("net/closed of {connection}");
        self.wait_until(DEADLINE, &what, |peer| peer.is_closed(connection));
        let closed = self.links[connection].closed.as_ref().unwrap();
        closed.get("error").map(|error| rpc_error(error).unwrap())
    }

    pub(crate) fn is_closed(&self, connection: &str) -> bool {
        self.links.get(connection).is_some_and(|link| link.closed.is_some())
    }

    pub(super) fn expect_connection(&mut self, id: &str, method: &str, params: &Value) {
        let Some(connection) = params["connectionId"].as_str() else { return };
        let is_live = self.links.get(connection).is_some_and(|link| link.closed.is_none());
        if method == "net/connect" && !is_live {
            let link = Link { awaiting_answer: true, ..Link::default() };
            self.links.insert(connection.to_owned(), link);
            self.connects.insert(id.to_owned(), connection.to_owned());
        }
    }

    pub(super) fn note_connected(&mut self, id: &str, outcome: &Result<Value, RpcError>) {
        let Some(connection) = self.connects.remove(id) else { return };
        match outcome {
            Ok(_) => self.link(&connection).awaiting_answer = false,
            Err(_) => drop(self.links.remove(&connection)),
        }
    }

    pub(super) fn take_data(&mut self, params: &RawValue) -> Result<(), String> {
        let data: Data<'_> =
            serde_json::from_str(params.get()).map_err(|error| error.to_string())?;
        let link = self.links.get_mut(&*data.connection_id).ok_or("data of no connection")?;
        let bytes = link.data(&data)?;
        if link.acknowledge {
            self.net_ack(&data.connection_id, u64::try_from(bytes).unwrap());
        }
        Ok(())
    }

    pub(super) fn take_closed(&mut self, params: &RawValue) -> Result<(), String> {
        let params = parse(params)?;
        let connection = params["connectionId"].as_str().ok_or("no connectionId")?;
        self.links.get_mut(connection).ok_or("the end of no connection")?.closed(params.clone())
    }
}
