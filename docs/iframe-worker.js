// Browsers give no worker to a page that is opened from the disk, and the theme's search wants one.
// So its script runs in a hidden frame there. Without this file the theme would ask another server
// for one like it. The theme's script looks for the name IFrameWorker.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame;
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.scope.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)));
      this.ready = this.load(url);
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script");
        Object.assign(script, { src: new URL(url, location), onload: resolve, onerror: reject });
        this.frame.contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
