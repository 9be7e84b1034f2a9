//! Upstreams that fail: before an answer, in it, and after the client left.

use std::time::{Duration, Instant};

use tapri_api::Format;
use tapri_fake_upstream::{Ending, Script};
use tapri_upstream::breaker::BreakerState;
use tapri_upstream::clock::ManualClock;
use tapri_upstream::{Api, Backend, Health, Timeouts};

use super::scene::*;

#[tokio::test]
async fn errors_before_the_first_byte_are_tried_again_and_no_others() {
    let fake = fake(Script::default()).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    for status in [429, 500, 502, 503, 504, 529] {
        fake.push(Script::error(status, "Not now"));
        fake.push(Script::error(status, "Not now"));
        let before = fake.came();
        let answer = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap();
        assert!(answer.end.is_ok());
        assert_eq!(fake.came() - before, 3, "{status}");
    }
    fake.push(Script { hang_up: true, ..Script::default() });
    assert!(ask(&fleet, call(Format::Chat, chat("Hi"))).await.is_ok(), "hung up on");
    for status in [400, 401, 403, 404, 413, 422] {
        fake.push(Script::error(status, "Your fault"));
        let before = fake.came();
        let error = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
        assert_eq!((error.status(), error.message.as_str()), (status, "Your fault"));
        assert_eq!(fake.came() - before, 1, "{status}");
    }
    assert!(fleet.upstreams()[0].retries >= 12);
    fake.stop().await;
}

#[tokio::test]
async fn an_error_keeps_its_words_its_request_id_and_when_to_come_back() {
    let fake = fake(Script::default()).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    // A wait longer than Tapri makes is the caller's: one try, and the header is passed on.
    fake.push(Script { retry_after: Some("30".into()), ..Script::error(429, "Too many tokens") });
    let error = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
    assert_eq!((error.status(), error.message.as_str()), (429, "Too many tokens"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(30)));
    let upstream = error.upstream.as_ref().unwrap();
    assert_eq!((upstream.status, upstream.request_id.as_deref()), (429, Some("req_fake_00000000")));
    assert_eq!(fake.came(), 1);
    assert_eq!(fleet.upstreams()[0].busy, 1);
    fake.stop().await;
}

#[tokio::test]
async fn an_upstream_that_cant_be_reached_is_said() {
    // A port that was free a moment ago.
    let gone = fake(Script::default()).await;
    let url = gone.url();
    gone.stop().await;
    let fleet = fleet(vec![upstream("gone", &url, Api::OpenAi)]);
    let error = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
    assert_eq!((error.status(), error.code.as_deref()), (502, Some("upstream_unreachable")));
    assert!(error.message.contains("gone") && !error.message.contains("127.0.0.1"), "{error}");
}

#[tokio::test]
async fn another_replica_answers_where_one_fails() {
    let (bad, good) = (fake(Script::error(503, "Down")).await, fake(Script::text("Up")).await);
    let mut up = upstream("up", &bad.url(), Api::OpenAi);
    up.urls.push(good.url());
    let fleet = fleet(vec![up]);
    for n in 0..20 {
        let answer = ask(&fleet, call(Format::Chat, chat(&format!("Question {n}")))).await.unwrap();
        assert_eq!(answer.text, "Up");
    }
    let stats = fleet.upstreams();
    assert_eq!(stats[1].answered, 20);
    assert!(bad.came() <= 6, "its breaker opened: {} calls", bad.came());
    assert_eq!((stats[0].breaker, stats[0].name.as_str()), (BreakerState::Open, "up-1"));
    bad.stop().await;
    good.stop().await;
}

#[tokio::test]
async fn an_open_breaker_refuses_at_once_and_lets_one_call_try() {
    let clock = ManualClock::default();
    let fake = fake(Script::error(500, "Broken")).await;
    let fleet = with_clock(vec![upstream("up", &fake.url(), Api::OpenAi)], &clock);
    while fleet.upstreams()[0].breaker == BreakerState::Closed {
        assert!(ask(&fleet, call(Format::Chat, chat("Hi"))).await.is_err());
    }
    let before = fake.came();
    let error = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
    assert_eq!((error.status(), error.code.as_deref()), (503, Some("upstream_unavailable")));
    assert_eq!(error.retry_after, Some(Duration::from_secs(5)));
    assert_eq!(fake.came(), before, "it was not asked");
    clock.advance(Duration::from_secs(5));
    fake.always(Script::text("Well again"));
    assert_eq!(ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap().text, "Well again");
    // The answer's end is what the breaker goes by.
    assert_eq!(fleet.upstreams()[0].breaker, BreakerState::Closed);
    fake.stop().await;
}

#[tokio::test]
async fn a_stream_that_dies_ends_with_an_error_and_is_not_sent_again() {
    let fake = fake(Script::default()).await;
    for api in [Api::OpenAi, Api::Anthropic] {
        let fleet = fleet(vec![upstream("up", &fake.url(), api)]);
        let (format, body) = match api {
            Api::OpenAi => (Format::Chat, chat("Hi")),
            Api::Anthropic => (Format::Messages, chat("Hi")),
        };
        for (script, code) in [
            (Script { cut_after: Some(4), ..Script::default() }, Some("upstream_incomplete")),
            (Script { end_after: Some(4), ..Script::default() }, Some("upstream_incomplete")),
        ] {
            let before = fake.came();
            fake.push(script);
            let answer = ask(&fleet, call(format, streamed(body.clone()))).await.unwrap();
            assert_eq!(answer.end.unwrap_err().code.as_deref(), code, "{api:?}");
            assert!(!answer.text.is_empty(), "what came before is there");
            assert_eq!(fake.came() - before, 1, "what was sent can't be taken back");
        }
        fake.push(Script { error_after: Some(4), ..Script::default() });
        let error =
            ask(&fleet, call(format, streamed(body.clone()))).await.unwrap().end.unwrap_err();
        let upstream = error.upstream.expect("the upstream's own words");
        assert!(upstream.request_id.is_some_and(|id| id.starts_with("req_fake_")));
        fake.push(Script { cut_after: Some(1), ..Script::default() });
        let answer = ask(&fleet, call(format, body)).await.unwrap();
        assert_eq!(answer.end.unwrap_err().status(), 502, "half a body");
        fake.push(Script { raw: Some("<html>".into()), ..Script::default() });
        let answer = ask(&fleet, call(format, chat("Hi"))).await.unwrap();
        assert_eq!(answer.end.unwrap_err().code.as_deref(), Some("upstream_invalid"));
        assert_eq!(fleet.upstreams()[0].broken, 5);
    }
    fake.stop().await;
}

#[tokio::test]
async fn streams_of_any_cut_are_read() {
    let fake = fake(Script::default()).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    for split in [1, 2, 3, 7, 64] {
        let text = Some("Zwölf Boxkämpfer 🥊 jagen".to_owned());
        fake.push(Script {
            split: Some(split),
            crlf: split % 2 == 0,
            comments: true,
            text,
            ..Script::default()
        });
        let answer = ask(&fleet, call(Format::Chat, streamed(chat("Hi")))).await.unwrap();
        assert_eq!(answer.text, "Zwölf Boxkämpfer 🥊 jagen", "{split}");
    }
    fake.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_upstream() {
    let fake = fake(Script { stall_after: Some(3), ..Script::default() }).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    let mut stream = fleet.start(call(Format::Chat, streamed(chat("Hi")))).await.unwrap();
    for _ in 0..3 {
        stream.next().await.unwrap();
    }
    assert_eq!(fleet.upstreams()[0].running, 1, "streams count as load to their end");
    assert_eq!(fake.last().unwrap().ending, Ending::Running);
    drop(stream);
    wait_until("the upstream to be told", || fake.last().unwrap().ending == Ending::ClientGone)
        .await;
    let stats = fleet.upstreams().remove(0);
    assert_eq!((stats.running, stats.abandoned, stats.breaker), (0, 1, BreakerState::Closed));
    // Before the first byte as well.
    fake.always(Script { delay_ms: 60_000, ..Script::default() });
    let waiting = tokio::time::timeout(
        Duration::from_millis(300),
        fleet.start(call(Format::Chat, chat("Hi"))),
    );
    assert!(waiting.await.is_err());
    wait_until("the upstream to be told", || {
        fake.last().is_some_and(|seen| seen.number == 1 && seen.ending == Ending::ClientGone)
    })
    .await;
    fake.stop().await;
}

#[tokio::test]
async fn silence_has_a_limit() {
    let fake = fake(Script { stall_after: Some(3), ..Script::default() }).await;
    let mut up = upstream("up", &fake.url(), Api::OpenAi);
    up.timeouts = Timeouts {
        first_byte: Duration::from_millis(200),
        between: Duration::from_millis(100),
        ..Timeouts::default()
    };
    let fleet = fleet(vec![up]);
    let answer = ask(&fleet, call(Format::Chat, streamed(chat("Hi")))).await.unwrap();
    let error = answer.end.unwrap_err();
    assert_eq!((error.status(), error.code.as_deref()), (504, Some("upstream_stalled")));
    fake.always(Script { delay_ms: 60_000, ..Script::default() });
    let before = fake.came();
    let error = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
    assert_eq!((error.status(), error.code.as_deref()), (504, Some("upstream_timeout")));
    assert_eq!(fake.came() - before, 1, "it may be computing: it is not asked twice");
    fake.stop().await;
}

#[tokio::test]
async fn a_stop_lets_calls_end_and_then_ends_them() {
    let fake = fake(Script { stall_after: Some(3), ..Script::default() }).await;
    let fleet = fleet(vec![upstream("up", &fake.url(), Api::OpenAi)]);
    let stream = fleet.start(call(Format::Chat, streamed(chat("Hi")))).await.unwrap();
    let reading = tokio::spawn(read(stream));
    wait_until("the call to run", || fleet.upstreams()[0].running == 1).await;
    let stopping = fleet.clone();
    tokio::task::spawn_blocking(move || stopping.shutdown(Duration::from_millis(50)))
        .await
        .unwrap();
    let error = reading.await.unwrap().end.unwrap_err();
    assert_eq!((error.status(), error.code.as_deref()), (503, Some("shutting_down")));
    let late = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
    assert_eq!(late.code.as_deref(), Some("shutting_down"));
    assert_eq!(fleet.upstreams()[0].broken, 0, "that was not the upstream's doing");
    fake.stop().await;
}

#[tokio::test]
async fn health_that_is_asked_for_keeps_calls_away_from_a_dead_replica() {
    let (one, two) = (fake(Script::text("one")).await, fake(Script::text("two")).await);
    let mut up = upstream("up", &one.url(), Api::OpenAi);
    up.urls.push(two.url());
    up.health = Some(Health { every: Duration::from_millis(5), ..Health::default() });
    let fleet = fleet(vec![up]);
    fleet.watch();
    one.stop().await;
    wait_until("its death to be noticed", || !fleet.upstreams()[0].well).await;
    for n in 0..10 {
        let answer = ask(&fleet, call(Format::Chat, chat(&format!("{n}")))).await.unwrap();
        assert_eq!(answer.text, "two");
    }
    assert_eq!(fleet.upstreams()[0].failed, 0, "it was not asked");
    let stopping = fleet.clone();
    tokio::task::spawn_blocking(move || stopping.shutdown(Duration::from_secs(5))).await.unwrap();
    two.stop().await;
}

/// A port that accepts no connection: its queue is full, and nobody empties it.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_is_never_accepted_is_given_up_in_time() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = std::net::TcpStream::connect_timeout(&address, SHORT) {
        waiting.push(stream);
        assert!(waiting.len() < 64, "the queue takes no more than a few");
    }
    let mut up = upstream("deaf", &format!("http://{address}"), Api::OpenAi);
    up.timeouts.connect = SHORT;
    up.retry.most = 1;
    let fleet = fleet(vec![up]);
    let start = Instant::now();
    let error = ask(&fleet, call(Format::Chat, chat("Hi"))).await.unwrap_err();
    assert_eq!((error.status(), error.code.as_deref()), (502, Some("upstream_unreachable")));
    assert!(error.message.contains("did not accept the connection in time"), "{error}");
    assert!(start.elapsed() >= SHORT * 2, "both tries had their time");
    assert_eq!((fleet.upstreams()[0].retries, fleet.upstreams()[0].failed), (1, 2));
}

/// The total holds in the middle of an answer that goes on and on, and before the first byte.
#[tokio::test]
async fn an_answer_has_a_total_time() {
    let fake = fake(Script::default()).await;
    for (script, streams) in [
        (Script { words: Some(100_000), chunk_delay_ms: 5, ..Script::default() }, true),
        (Script { delay_ms: 60_000, ..Script::default() }, false),
    ] {
        let mut up = upstream("slow", &fake.url(), Api::OpenAi);
        up.timeouts.total = Some(SHORT);
        let fleet = fleet(vec![up]);
        fake.push(script);
        let before = fake.came();
        let body = if streams { streamed(chat("Hi")) } else { chat("Hi") };
        let start = Instant::now();
        let error = match ask(&fleet, call(Format::Chat, body)).await {
            Ok(answer) => {
                assert!(streams, "{answer:?}");
                answer.end.unwrap_err()
            }
            Err(error) => error,
        };
        assert!(start.elapsed() >= SHORT);
        assert_eq!((error.status(), error.code.as_deref()), (504, Some("upstream_timeout")));
        assert!(error.message.ends_with("within 0.3 s"), "{error}");
        assert_eq!(fake.came() - before, 1, "it may be computing: it is not asked again");
        wait_until("the upstream to learn of it", || {
            fake.last().unwrap().ending == Ending::ClientGone
        })
        .await;
    }
    fake.stop().await;
}

const SHORT: Duration = Duration::from_millis(300);
