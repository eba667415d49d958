import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { Icon } from "@/ui/Icon";
import css from "./JobFormPane.module.css";

interface Props {
  label: string;
  verb: string;
  taken: string[];
  pattern: RegExp;
  onAdd: (name: string, value: string) => void;
  /** Label of a second field; absent: there is none. */
  value?: string;
  /** Shows no letter of what is typed there. */
  hidden?: boolean;
}

/** A name, and sometimes a value, to be added to the text. */
export function Adder({ label, verb, taken, pattern, onAdd, value, hidden }: Props) {
  const [name, setName] = useState("");
  const [typed, setTyped] = useState("");
  const isTaken = taken.includes(name);
  const error = isTaken
    ? "There is one of this name"
    : name && !pattern.test(name)
      ? "Letters and digits"
      : null;
  const ValueInput = hidden ? PasswordInput : TextInput;
  const add = () => {
    if (!name || error || (value && !typed)) return;
    onAdd(name, typed);
    setName("");
    setTyped("");
  };
  const onKeyDown = (event: React.KeyboardEvent) => {
    if (event.key === "Enter") add();
  };
  return (
    <div className={css.adder}>
      <TextInput
        label={label}
        error={error}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
      {value ? (
        <ValueInput
          label={value}
          autoComplete="off"
          value={typed}
          onChange={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
      ) : null}
      <Button
        variant="default"
        leftSection={<Icon name="plus" size={14} />}
        disabled={!name || error !== null || (value !== undefined && !typed)}
        onClick={add}
      >
        {verb}
      </Button>
    </div>
  );
}
