import { ActionIcon, Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";
import { Icon } from "./Icon";

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <Tooltip label={done ? "Copied" : label}>
      <ActionIcon
        aria-label={label}
        size="sm"
        onClick={() => void copyText(text).then(setDone)}
        data-done={done || undefined}
      >
        <Icon name={done ? "check" : "copy"} size={14} />
      </ActionIcon>
    </Tooltip>
  );
}

/** Copies text; true when it worked. Over plain HTTP, where the clipboard API is absent, the old
 * way through a selection still works. */
async function copyText(text: string): Promise<boolean> {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => copyBySelection(text),
    );
  }
  return copyBySelection(text);
}

function copyBySelection(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  const dialog = document.querySelector("[role=dialog]");
  (dialog ?? document.body).append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
