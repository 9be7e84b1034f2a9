//! Ctrl-C.

use tokio::sync::watch;

/// Knows when Ctrl-C was pressed. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// From here on Ctrl-C no longer ends the process: whoever waits does. To be called inside a runtime.
    pub(crate) async fn listen() -> Self {
        let (pressed, receiver) = watch::channel(false);
        tokio::spawn(async move {
            match tokio::signal::ctrl_c().await {
                Ok(()) => {
                    // Nobody left to tell: the session has ended.
                    let _ = pressed.send(true);
                }
                // Where it can't be listened for, the system's own way ends the process.
                Err(_) => pressed.closed().await,
            }
        });
        // Lets the task set its handler.
        tokio::task::yield_now().await;
        Interrupt(receiver)
    }

    /// Waits for Ctrl-C.
    pub(crate) async fn pressed(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|pressed| *pressed).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
