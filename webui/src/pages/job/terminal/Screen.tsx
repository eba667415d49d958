import "@xterm/xterm/css/xterm.css";
import { useComputedColorScheme } from "@mantine/core";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { useEffect, useEffectEvent, useRef } from "react";
import { themeOf } from "./look";
import { ExecSession, type End } from "./session";
import { withoutStyleElements } from "./styleless";
import css from "./Terminal.module.css";

const SCROLLBACK = 5000;

interface Props {
  attempt: string;
  label: string;
  onOpen: () => void;
  onEnd: (end: End) => void;
}

/** A terminal on a shell in the attempt's container, for as long as it is on the page. */
export function Screen({ attempt, label, onOpen, onEnd }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const shown = useRef<Terminal | null>(null);
  const scheme = useComputedColorScheme();
  const opened = useEffectEvent(onOpen);
  const ended = useEffectEvent(onEnd);

  useEffect(() => {
    if (!box.current) return undefined;
    const terminal = draw(box.current, label);
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    fit.fit();
    shown.current = terminal;

    const { rows, cols } = terminal;
    const session = new ExecSession(
      addressOf(attempt),
      { rows, cols },
      {
        onOpen: () => opened(),
        onOutput: (bytes) => terminal.write(bytes),
        onEnd: (end) => {
          terminal.options.disableStdin = true;
          ended(end);
        },
      },
    );
    terminal.onData((text) => session.input(text));
    terminal.onResize((size) => session.resize(size));
    const sizes = new ResizeObserver(() => fit.fit());
    sizes.observe(box.current);
    terminal.focus();
    return () => {
      sizes.disconnect();
      session.close();
      terminal.dispose();
    };
  }, [attempt, label]);

  useEffect(() => {
    if (shown.current) shown.current.options.theme = themeOf(document.documentElement);
  }, [scheme]);

  return <div ref={box} className={css.screen} />;
}

function draw(box: HTMLElement, label: string): Terminal {
  const root = document.documentElement;
  const terminal = new Terminal({
    fontFamily: getComputedStyle(root).getPropertyValue("--mono"),
    fontSize: 13,
    cursorBlink: true,
    scrollback: SCROLLBACK,
    screenReaderMode: true,
    theme: themeOf(root),
  });
  withoutStyleElements(() => terminal.open(box));
  terminal.textarea?.setAttribute("aria-label", label);
  return terminal;
}

function addressOf(attempt: string): string {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  return `${scheme}//${location.host}/ws/attempts/${attempt}/exec`;
}
