"use strict";
(() => {
  // The list of calls: lines that come are put at its top, until the person pauses.
  const live = (root) => {
    const words = root.querySelector("[data-words]");
    const button = root.querySelector("[data-pause]");
    const table = document.getElementById("calls");
    let paused = false;
    let came = 0;
    let missed = 0;
    const number = new Intl.NumberFormat(navigator.languages);
    const say = () => {
      if (paused) words.textContent = root.dataset.paused;
      else if (missed) words.textContent = `${root.dataset.missed} ${number.format(missed)}`;
      else words.textContent = came ? `${root.dataset.said} ${root.dataset.came} ${number.format(came)}` : root.dataset.said;
    };
    const connect = () => {
      const source = new EventSource(root.dataset.live);
      source.addEventListener("ready", () => {
        button.hidden = false;
        root.dataset.connected = "yes";
        say();
      });
      source.addEventListener("calls", (event) => {
        if (paused) return;
        htmx.swap(table, JSON.parse(event.data).html, { swapStyle: "afterbegin" });
        document.getElementById("no-calls")?.remove();
        came += 1;
        // What is far down can be found by its page.
        while (table.rows.length > 500) table.rows[table.rows.length - 1].remove();
        say();
      });
      source.addEventListener("lost", (event) => {
        missed += JSON.parse(event.data).calls;
        say();
      });
      source.addEventListener("error", () => {
        words.textContent = root.dataset.lost;
        delete root.dataset.connected;
        // A refusal closes it for good, where a break does not.
        if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
      });
      window.addEventListener("pagehide", () => source.close(), { once: true });
    };
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
      say();
    });
    connect();
  };

  document.addEventListener("DOMContentLoaded", () => {
    const root = document.getElementById("live");
    if (root) live(root);
  });
})();
