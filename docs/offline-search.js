// Browsers start no worker for pages that are opened from disk, and the search runs in one. There, this class runs the
// worker's script in a hidden frame instead.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => {
        const script = frame.contentDocument.createElement("script");
        script.src = address;
        script.onload = resolve;
        frame.contentDocument.head.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data })));
    }

    terminate() {}
  };
  window.Worker = window.IFrameWorker;
}
