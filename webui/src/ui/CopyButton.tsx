import { ActionIcon, Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";
import { copyText } from "./copy";
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
