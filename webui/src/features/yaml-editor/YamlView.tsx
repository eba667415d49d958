import { useEffect, useRef } from "react";
import { mountEditor } from "./mount";
import { readOnly } from "./setup";
import css from "./editor.module.css";

/** A job file to read. */
export function YamlView({ text, label }: { text: string; label: string }) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!host.current) return undefined;
    const view = mountEditor(host.current, text, readOnly(label));
    return () => view.destroy();
  }, [text, label]);
  return <div ref={host} className={css.host} />;
}
