import { Button } from "@mantine/core";
import { useRef, type ReactNode } from "react";
import { Icon } from "./Icon";
import { useFileDrop } from "./useFileDrop";
import css from "./FilePicker.module.css";

interface Props {
  onText: (text: string) => void;
  /** As of an <input type="file">. */
  accept: string;
  children: ReactNode;
}

/** Takes a file that is dropped on it or chosen, as text. */
export function FilePicker({ onText, accept, children }: Props) {
  const input = useRef<HTMLInputElement>(null);
  const drop = useFileDrop(({ files }) => void take(files[0]));

  async function take(file: File | undefined) {
    if (file) onText(await file.text());
  }

  return (
    <div className={css.picker} {...drop}>
      {children}
      <input
        ref={input}
        type="file"
        accept={accept}
        hidden
        onChange={(event) => {
          void take(event.currentTarget.files?.[0]);
          event.currentTarget.value = "";
        }}
      />
      <Button
        variant="default"
        className={css.choose}
        leftSection={<Icon name="upload" size={14} />}
        onClick={() => input.current?.click()}
      >
        Choose a file
      </Button>
    </div>
  );
}
