import { Button } from "@mantine/core";
import { useRef, useState, type DragEvent, type ReactNode } from "react";
import { Icon } from "./Icon";
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
  const [over, setOver] = useState(false);

  async function take(file: File | undefined) {
    if (file) onText(await file.text());
  }

  function drop(event: DragEvent) {
    event.preventDefault();
    setOver(false);
    void take(event.dataTransfer.files[0]);
  }

  return (
    <div
      className={css.picker}
      data-over={over || undefined}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
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
