import { ActionIcon, Menu, TextInput } from "@mantine/core";
import type { KeyboardEvent } from "react";
import { Icon } from "@/ui/Icon";
import css from "./FindInput.module.css";

interface Props {
  needle: string;
  /** Whether the lines in memory are the whole log; else nothing found here says little. */
  whole: boolean;
  onNeedle: (needle: string) => void;
  found: number[] | null;
  target: number | null;
  onNext: () => void;
  onPrevious: () => void;
  onWhole: (regex: boolean) => void;
}

/** Marks the lines in memory as one types. Enter goes to the next of them, Shift+Enter back; where
 * none of them has it, or with Ctrl, the server searches the whole log. */
export function FindInput(props: Props) {
  const { needle, whole, onNeedle, found, target, onNext, onPrevious, onWhole } = props;
  const none = found?.length === 0;
  function onKeyDown(event: KeyboardEvent) {
    const elsewhere = (none && !whole) || event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && elsewhere && needle.trim()) onWhole(false);
    else if (event.key === "Enter") (event.shiftKey ? onPrevious : onNext)();
    if (event.key === "Escape") onNeedle("");
  }
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
            <span className={css.count} data-none={(none && whole) || undefined} role="status">
              {none && !whole
                ? "↵ all"
                : target === null || none
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
      <Menu position="bottom-start" width={270}>
        <Menu.Target>
          <ActionIcon aria-label="Search the whole log" disabled={!needle.trim()}>
            <Icon name="searchAll" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item rightSection={<kbd>Ctrl ↵</kbd>} onClick={() => onWhole(false)}>
            Search the whole log
          </Menu.Item>
          <Menu.Item onClick={() => onWhole(true)}>… as a regular expression</Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}
