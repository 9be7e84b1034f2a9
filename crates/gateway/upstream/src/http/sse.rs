//! A parser of server-sent events: bounded, tolerant, and indifferent to where the bytes are cut.
//!
//! Written after the WHATWG's HTML standard, section 9.2.6. What it is more lenient about: an event that the end of
//! the stream cut off before its blank line is given, as some servers leave that out. `id` and `retry` are skipped:
//! an answer can't be resumed.

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// Its data, lines joined by line feeds.
    pub data: String,
}

/// An event is larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {limit} bytes")]
pub struct TooLong {
    /// The limit.
    pub limit: usize,
}

/// Reads a stream in pieces of any size.
#[derive(Debug)]
pub struct Sse {
    /// A line that hasn't ended.
    line: Vec<u8>,
    name: Option<String>,
    data: Vec<u8>,
    has_data: bool,
    /// The last byte was a carriage return: a line feed behind it belongs to it.
    after_return: bool,
    first_line: bool,
    limit: usize,
}

impl Sse {
    /// With a limit to the bytes of one event.
    pub fn new(limit: usize) -> Self {
        Sse {
            line: Vec::new(),
            name: None,
            data: Vec::new(),
            has_data: false,
            after_return: false,
            first_line: true,
            limit,
        }
    }

    /// Takes more bytes, and gives the events that they complete.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), TooLong> {
        if self.after_return {
            self.after_return = bytes.is_empty();
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) {
            let (line, rest) = bytes.split_at(end);
            self.keep(line)?;
            let line = std::mem::take(&mut self.line);
            self.end_line(&line, events)?;
            // Kept for its room.
            self.line = line;
            self.line.clear();
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_return = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.keep(bytes)
    }

    /// The stream ended: the event that was cut off, if there is one.
    pub fn end(mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let mut events = Vec::new();
        if !line.is_empty() {
            self.end_line(&line, &mut events).ok()?;
        }
        self.event()
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + part.len() + self.data.len() > self.limit {
            return Err(TooLong { limit: self.limit });
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self, line: &[u8], events: &mut Vec<SseEvent>) -> Result<(), TooLong> {
        let line = match std::mem::replace(&mut self.first_line, false) {
            true => line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line),
            false => line,
        };
        if line.is_empty() {
            events.extend(self.event());
            return Ok(());
        }
        let (field, value) = match memchr::memchr(b':', line) {
            // A comment.
            Some(0) => return Ok(()),
            Some(at) => {
                let value = &line[at + 1..];
                (&line[..at], value.strip_prefix(b" ").unwrap_or(value))
            }
            None => (line, &[][..]),
        };
        match field {
            b"data" => {
                if self.data.len() + value.len() >= self.limit {
                    return Err(TooLong { limit: self.limit });
                }
                if std::mem::replace(&mut self.has_data, true) {
                    self.data.push(b'\n');
                }
                self.data.extend_from_slice(value);
            }
            b"event" => self.name = Some(String::from_utf8_lossy(value).into_owned()),
            _ => {}
        }
        Ok(())
    }

    /// An event without data is none.
    fn event(&mut self) -> Option<SseEvent> {
        let name = self.name.take().filter(|name| !name.is_empty());
        if !std::mem::replace(&mut self.has_data, false) {
            return None;
        }
        let data = std::mem::take(&mut self.data);
        // Not UTF-8 is not JSON either: what reads it says so.
        let data = String::from_utf8(data)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Some(SseEvent { name, data })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Vec<SseEvent> {
        let (mut sse, mut events) = (Sse::new(1 << 20), Vec::new());
        for piece in pieces {
            sse.push(piece, &mut events).unwrap();
        }
        events.extend(sse.end());
        events
    }

    fn event(name: Option<&str>, data: &str) -> SseEvent {
        SseEvent { name: name.map(str::to_owned), data: data.to_owned() }
    }

    #[test]
    fn what_servers_send() {
        let text = "\u{feff}: hello\r\n\r\nevent: ping\ndata: {}\n\ndata:one\rdata: two\r\r\
                    id: 7\nretry: 10\nevent: empty\n\ndata\n\ndata: cut off";
        let wanted = [
            event(Some("ping"), "{}"),
            event(None, "one\ntwo"),
            event(None, ""),
            event(None, "cut off"),
        ];
        assert_eq!(read(&[text.as_bytes()]), wanted);
        assert_eq!(read(&[b"data: \xff\n\n"]), [event(None, "\u{fffd}")]);
    }

    #[test]
    fn an_event_that_never_ends_is_an_error() {
        let (mut sse, mut events) = (Sse::new(1000), Vec::new());
        assert!((0..100).any(|_| sse.push(&[b'x'; 100], &mut events).is_err()));
        let mut sse = Sse::new(1000);
        assert!((0..100).any(|_| sse.push(b"data: 0123456789\n", &mut events).is_err()));
    }

    proptest! {
        /// Wherever the bytes are cut, the events are the same.
        #[test]
        fn cuts_change_nothing(
            lines in prop::collection::vec(
                (prop::sample::select(vec!["data: ", "data:", "event: ", ": ", "", "id: ", "data"]),
                 "[a-zé:\u{1F600} ]{0,6}",
                 prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n", "\r\n\r\n", "\r\r"])), 0..20),
            cuts in prop::collection::vec(0usize..400, 0..12),
        ) {
            let text: String = lines.iter().map(|(a, b, c)| format!("{a}{b}{c}")).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[bytes]));
        }
    }
}
