// Loads the page anew where a part of it did not arrive: browsers give up what they are loading when
// a network comes or goes, as those of containers do. A file of its own and first, because the parts
// cannot tell of themselves; and once in a while only, because a part that is missing for good would
// make a loop.
(function () {
  var KEPT_AS = "skep-parts-lost-at";
  var ONCE_MS = 30000;
  addEventListener(
    "error",
    function (event) {
      var part = event.target;
      var isPart =
        (part instanceof HTMLScriptElement && part.type === "module") ||
        (part instanceof HTMLLinkElement && part.rel === "stylesheet");
      if (!isPart) return;
      try {
        if (Date.now() - Number(sessionStorage.getItem(KEPT_AS)) < ONCE_MS) return;
        sessionStorage.setItem(KEPT_AS, String(Date.now()));
      } catch {
        return; // without storage nobody would know that it was tried
      }
      location.reload();
    },
    true, // such errors do not bubble
  );
})();
