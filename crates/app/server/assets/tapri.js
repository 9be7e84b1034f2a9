// What the pages need besides htmx: values in the person's own way, files dropped in, and a case's answers as they come.
"use strict";
(() => {
  const languages = navigator.languages && navigator.languages.length ? navigator.languages : undefined;
  const number = new Intl.NumberFormat(languages);

  // Values: the element has the plain value, and an English text until this has run.
  const writers = {
    number: (value) => number.format(value),
    seconds: (value, element) => new Intl.NumberFormat(languages, {
      style: "unit", unit: "second", unitDisplay: "narrow",
      minimumFractionDigits: Number(element.dataset.digits), maximumFractionDigits: Number(element.dataset.digits),
    }).format(value),
    percent: (value) => new Intl.NumberFormat(languages, { style: "percent", maximumFractionDigits: 1 }).format(value),
    money: (value, element) => new Intl.NumberFormat(languages, {
      style: "currency", currency: element.dataset.currency, minimumFractionDigits: 2, maximumFractionDigits: 4,
    }).format(value),
    moment: (value) => new Intl.DateTimeFormat(languages, { dateStyle: "medium", timeStyle: "short" }).format(new Date(value)),
  };
  const write = (root) => {
    for (const [name, writer] of Object.entries(writers)) {
      for (const element of root.querySelectorAll(`[data-${name}]`)) {
        const value = element.dataset[name];
        try {
          element.textContent = writer(name === "moment" ? value : Number(value), element);
        } catch {
          // A currency that browsers don't know: the English text stays.
        }
      }
    }
  };

  // Uploads: what was dropped is added to what was chosen, in its order.
  const upload = (form) => {
    if (form.dataset.ready) return;
    form.dataset.ready = "yes";
    const input = form.querySelector("input[type=file]");
    const area = form.querySelector("[data-drop]") || form;
    const list = form.querySelector("[data-chosen]");
    const box = form.querySelector("[data-progress]");
    const chosen = new DataTransfer();
    const show = () => {
      if (!list) return;
      list.replaceChildren(...Array.from(input.files, (file) => {
        const item = document.createElement("li");
        item.textContent = file.name;
        return item;
      }));
      list.hidden = input.files.length === 0;
    };
    const add = (files) => {
      for (const file of files) chosen.items.add(file);
      input.files = chosen.files;
      show();
    };
    input.addEventListener("change", () => { if (input.files !== chosen.files) add(Array.from(input.files)); });
    area.addEventListener("dragover", (event) => { event.preventDefault(); area.classList.add("over"); });
    area.addEventListener("dragleave", () => area.classList.remove("over"));
    area.addEventListener("drop", (event) => {
      event.preventDefault();
      area.classList.remove("over");
      add(event.dataTransfer.files);
    });
    const bar = box.querySelector("progress");
    const words = box.querySelector("[data-words]");
    form.addEventListener("htmx:beforeRequest", () => {
      box.hidden = false;
      words.textContent = form.dataset.sending;
    });
    form.addEventListener("htmx:xhr:progress", (event) => {
      const { loaded, total, lengthComputable } = event.detail;
      if (!lengthComputable) return;
      if (loaded < total) {
        bar.value = (100 * loaded) / total;
      } else {
        bar.removeAttribute("value");
        words.textContent = form.dataset.reading;
      }
    });
    form.addEventListener("htmx:afterRequest", () => { box.hidden = true; });
  };

  // The question: Enter sends it. What was sent is cleared once the server has taken it.
  const ask = (form) => {
    if (form.dataset.ready) return;
    form.dataset.ready = "yes";
    const box = form.querySelector("textarea");
    box.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    });
    form.addEventListener("htmx:afterRequest", (event) => {
      if (event.detail.xhr.status >= 200 && event.detail.xhr.status < 300) {
        box.value = "";
        form.querySelector("[role=alert]").replaceChildren();
      }
      box.focus();
    });
  };

  // A case: its page is told what goes on, and loads its turns again when one began or ended.
  const follow = (root) => {
    const lost = document.getElementById("lost");
    const turns = document.getElementById("turns");
    let last = { n: null, text: "", progress: null };
    let loading = false;
    let again = false;
    const running = () => turns.querySelector(`[data-running="${last.n}"]`);
    const draw = () => {
      const turn = running();
      if (!turn) return;
      const answer = turn.querySelector("[data-answer]");
      if (answer.textContent !== last.text) answer.textContent = last.text;
      const at = last.progress;
      if (!at || at.n !== last.n) return;
      const box = turn.querySelector("[data-reading]");
      const words = box.querySelector("[data-words]");
      const bar = box.querySelector("progress");
      const reading = at.phase === "reading";
      bar.hidden = !reading;
      if (reading) {
        bar.max = at.total;
        bar.value = at.ready;
        const of = root.dataset.of.replace("{0}", number.format(at.ready)).replace("{1}", number.format(at.total));
        words.textContent = `${root.dataset.reading}: ${of}`;
      } else {
        words.textContent = root.dataset[at.phase];
      }
    };
    const load = async () => {
      if (loading) { again = true; return; }
      loading = true;
      try {
        do {
          again = false;
          const answer = await fetch(root.dataset.turns, { headers: { "hx-request": "true" } });
          if (!answer.ok) break;
          const html = await answer.text();
          const near = window.innerHeight + window.scrollY > document.body.scrollHeight - 200;
          htmx.swap(turns, html, { swapStyle: "innerHTML" });
          draw();
          if (near) window.scrollTo({ top: document.body.scrollHeight });
        } while (again);
      } catch {
        // The server is gone; the stream of events says when it is back.
      } finally {
        loading = false;
      }
    };
    const connect = () => {
      const source = new EventSource(root.dataset.events);
      source.addEventListener("open", () => { lost.hidden = true; lost.textContent = ""; });
      source.addEventListener("turns", load);
      source.addEventListener("progress", (event) => {
        const at = JSON.parse(event.data);
        if (at.n !== last.n) last = { n: at.n, text: "", progress: null };
        last.progress = at;
        draw();
      });
      source.addEventListener("text", (event) => {
        const more = JSON.parse(event.data);
        if (more.n !== last.n) last = { n: more.n, text: "", progress: last.progress };
        last.text = more.all ? more.text : last.text + more.text;
        draw();
      });
      source.addEventListener("error", () => {
        lost.textContent = root.dataset.lost || lost.dataset.lost;
        lost.hidden = false;
        // A refusal closes it for good, where a break does not.
        if (source.readyState === EventSource.CLOSED) {
          source.close();
          setTimeout(connect, 2000);
        }
      });
      window.addEventListener("pagehide", () => source.close(), { once: true });
    };
    connect();
  };

  const prepare = (root) => {
    write(root);
    root.querySelectorAll("form[data-upload]").forEach(upload);
    root.querySelectorAll("form[data-ask]").forEach(ask);
  };
  document.addEventListener("htmx:load", (event) => prepare(event.detail.elt.parentNode || document));
  document.addEventListener("DOMContentLoaded", () => {
    prepare(document);
    const root = document.getElementById("case");
    if (root) follow(root);
  });
})();
