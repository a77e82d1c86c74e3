//! Files in the environment. Each call waits for its answer however long a file system takes; it
//! ends with the connection at the latest.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ExecClient;
use super::dispatch::{Content, Pending};
use crate::buffers;
use crate::environment::Answer;
use crate::error::Result;
use crate::protocol::{
    CopyParams, Empty, FindParams, FindResult, GrepParams, GrepResult, KillParams, KillResult,
    MkdirParams, PathParams, ProcessId, ReadFileParams, ReadFileResult, ReaddirResult,
    RealpathResult, RemoveParams, RenameParams, StatParams, StatResult, WriteFileParams,
    WriteFileResult, method,
};
use crate::protocol::{file_content, rpc};

impl ExecClient {
    /// Reads a file, or a part of it.
    ///
    /// # Errors
    /// `TooLarge` where the answer would be longer than a message may be: read it in parts.
    /// `NotAFile`, `Os(ENOENT)` and the like; `ConnectionLost`.
    pub fn read_file(&self, params: &ReadFileParams) -> Result<ReadFileResult> {
        self.begin_read_file(params)?.wait()
    }

    /// Begins to read; the answer can be waited for later, so that several parts of a file are on
    /// their way at once.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`] but `TimedOut`; the answer's are those of
    /// [`ExecClient::read_file`].
    pub fn begin_read_file(&self, params: &ReadFileParams) -> Result<Answer<ReadFileResult>> {
        let link = self.link()?;
        let (answering, answer) = Answer::read_by(link.reader());
        let give = move |content: Result<Content>| answering.give(content.and_then(read));
        let pending = Pending::Content(Box::new(give));
        link.request(pending, Vec::with_capacity(256), |buffer, id| {
            rpc::write_request(buffer, id, method::READ_FILE, params);
        })?;
        Ok(answer)
    }

    /// Writes a file, or appends to it.
    ///
    /// # Errors
    /// `Conflict` where the file has another version than `if_version`, `Os(ENOSPC)` and the like;
    /// `ConnectionLost`: it may have been written, or not.
    pub fn write_file(&self, params: &WriteFileParams) -> Result<WriteFileResult> {
        self.begin_write_file(params)?.wait()
    }

    /// Begins to write; the answer can be waited for later. Writes of one connection are made in the
    /// order in which they are begun.
    ///
    /// # Errors
    /// Those of [`ExecClient::call`] but `TimedOut`; the answer's are those of
    /// [`ExecClient::write_file`].
    pub fn begin_write_file(&self, params: &WriteFileParams) -> Result<Answer<WriteFileResult>> {
        let buffer = buffers::take_for(params.data_base64.0.len() / 3 * 4 + 1024);
        let begun = self.link()?.begin_with(buffer, |buffer, id| {
            file_content::write_request(buffer, id, params);
        });
        begun.map(|(_, answer)| answer)
    }

    /// Tells what stands at a path.
    ///
    /// # Errors
    /// `Os(ENOENT)` and the like; `ConnectionLost`.
    pub fn stat(&self, params: &StatParams) -> Result<StatResult> {
        self.file_call(method::STAT, params)
    }

    /// Lists a directory.
    ///
    /// # Errors
    /// `Os(ENOTDIR)` and the like; `ConnectionLost`.
    pub fn readdir(&self, params: &PathParams) -> Result<ReaddirResult> {
        self.file_call(method::READDIR, params)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Os(EEXIST)` and the like; `ConnectionLost`.
    pub fn mkdir(&self, params: &MkdirParams) -> Result<()> {
        self.file_call(method::MKDIR, params).map(|Empty {}| ())
    }

    /// Removes a file or a directory.
    ///
    /// # Errors
    /// `Os(ENOTEMPTY)` and the like; `ConnectionLost`.
    pub fn remove(&self, params: &RemoveParams) -> Result<()> {
        self.file_call(method::REMOVE, params).map(|Empty {}| ())
    }

    /// Renames.
    ///
    /// # Errors
    /// `Os(EXDEV)` and the like; `ConnectionLost`.
    pub fn rename(&self, params: &RenameParams) -> Result<()> {
        self.file_call(method::RENAME, params).map(|Empty {}| ())
    }

    /// Copies a file or a directory, on the far side.
    ///
    /// # Errors
    /// `Os(EISDIR)` and the like; `ConnectionLost`.
    pub fn copy(&self, params: &CopyParams) -> Result<()> {
        self.file_call(method::COPY, params).map(|Empty {}| ())
    }

    /// Resolves a path.
    ///
    /// # Errors
    /// `Os(ENOENT)` and the like; `ConnectionLost`.
    pub fn realpath(&self, params: &PathParams) -> Result<RealpathResult> {
        self.file_call(method::REALPATH, params)
    }

    /// Finds what has a name below a directory. As with [`ExecClient::grep`], there is no deadline:
    /// a `process_id` of the params is what to end it by.
    ///
    /// # Errors
    /// `InvalidParams`, `Os(ENOTDIR)` and the like; `Os(ECANCELED)`; `ConnectionLost`.
    pub fn find(&self, params: &FindParams) -> Result<FindResult> {
        self.file_call(method::FIND, params)
    }

    /// Finds the lines that match in the files below a directory.
    ///
    /// # Errors
    /// `InvalidParams`, `Os(ENOENT)` and the like; `Os(ECANCELED)`; `ConnectionLost`.
    pub fn grep(&self, params: &GrepParams) -> Result<GrepResult> {
        self.file_call(method::GREP, params)
    }

    /// Ends a search by its `process_id`. `false` where there is none.
    ///
    /// # Errors
    /// `ConnectionLost`.
    pub fn end_search(&self, id: &ProcessId) -> Result<bool> {
        let params = KillParams { process_id: id.clone(), signal: None, grace_ms: None };
        self.file_call(method::KILL, &params).map(|KillResult { running }| running)
    }

    fn file_call<R: DeserializeOwned + Send + 'static>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<R> {
        self.begin(method, params)?.wait()
    }
}

/// The result of a read, with its content put back.
fn read(content: Content) -> Result<ReadFileResult> {
    let Content { rest, lifted } = content;
    let mut result: ReadFileResult = rpc::result(&rest)?;
    if let Some(lifted) = lifted {
        result.data_base64.0 = lifted;
    }
    Ok(result)
}
