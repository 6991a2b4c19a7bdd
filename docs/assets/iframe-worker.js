// SPDX-License-Identifier: Apache-2.0
// Lets the search work where the site is opened from disk. Browsers start no Worker for a file
// there, so its script runs in a hidden frame. Material's plugin "offline" loads this file.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const scope = frame.contentWindow;
      scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      scope.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve());
      this.frame = frame;
      this.ready = this.load(url);
    }

    load(url) {
      const script = this.frame.contentDocument.createElement("script");
      script.src = url;
      return new Promise((done, failed) => {
        script.onload = done;
        script.onerror = failed;
        this.frame.contentDocument.body.appendChild(script);
      });
    }

    postMessage(data) {
      const scope = this.frame.contentWindow;
      this.ready.then(() => scope.dispatchEvent(new scope.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
