import { Button, Select, TextInput } from "@mantine/core";
import { useState, type FormEvent } from "react";
import css from "./MembersTab.module.css";

interface Props {
  /** What is added: "member" or "group". */
  what: string;
  /** Label of the field in which a name is typed. */
  label: string;
  placeholder: string;
  verb: string;
  /** The names to choose from; undefined for who knows whom to name and types it. */
  choices: string[] | undefined;
  /** Why there are no names to choose from. */
  unread?: string | null;
  onAdd: (name: string) => void;
}

/** Adds a user or a group by name: administrators of the cluster choose, VC admins type. */
export function AddByName({ what, label, placeholder, verb, choices, unread, onAdd }: Props) {
  const [name, setName] = useState("");
  if (choices) {
    return (
      <Select
        aria-label={`Add a ${what}`}
        placeholder={`Add a ${what}`}
        data={choices}
        value={null}
        onChange={(chosen) => chosen && onAdd(chosen)}
        error={unread}
        searchable
        limit={50}
        nothingFoundMessage={`No such ${placeholder.toLowerCase()}`}
        mt={10}
      />
    );
  }
  function submit(event: FormEvent) {
    event.preventDefault();
    onAdd(name.trim());
    setName("");
  }
  return (
    <form onSubmit={submit} className={css.add}>
      <TextInput
        aria-label={label}
        placeholder={placeholder}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <Button type="submit" variant="default" disabled={!name.trim()}>
        {verb}
      </Button>
    </form>
  );
}
