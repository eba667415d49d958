import { ActionIcon, TextInput } from "@mantine/core";
import type { KeyboardEvent } from "react";
import { Icon } from "@/ui/Icon";
import css from "./FindBox.module.css";

interface Props {
  needle: string;
  onNeedle: (needle: string) => void;
  found: number[] | null;
  target: number | null;
  onNext: () => void;
  onPrevious: () => void;
}

/** Searches the lines in memory; Enter goes to the next one, Shift+Enter back. */
export function FindBox({ needle, onNeedle, found, target, onNext, onPrevious }: Props) {
  function onKeyDown(event: KeyboardEvent) {
    if (event.key === "Enter") (event.shiftKey ? onPrevious : onNext)();
    if (event.key === "Escape") onNeedle("");
  }
  const none = found?.length === 0;
  return (
    <div className={css.find}>
      <TextInput
        type="search"
        aria-label="Search in the log"
        placeholder="Search  ( / )"
        leftSection={<Icon name="search" size={14} />}
        value={needle}
        onChange={(event) => onNeedle(event.currentTarget.value)}
        onKeyDown={onKeyDown}
        rightSection={
          found ? (
            <span className={css.count} data-none={none || undefined} role="status">
              {target === null || none
                ? found.length
                : `${found.indexOf(target) + 1}/${found.length}`}
            </span>
          ) : null
        }
        rightSectionWidth={64}
        className={css.box}
      />
      <ActionIcon aria-label="Previous match" disabled={!found?.length} onClick={onPrevious}>
        <Icon name="up" />
      </ActionIcon>
      <ActionIcon aria-label="Next match" disabled={!found?.length} onClick={onNext}>
        <Icon name="down" />
      </ActionIcon>
    </div>
  );
}
