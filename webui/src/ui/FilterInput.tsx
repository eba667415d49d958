import { TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useState } from "react";
import { Icon, type IconName } from "./Icon";

interface Props {
  label: string;
  placeholder: string;
  icon: IconName;
  value: string;
  onChange: (value: string) => void;
  className?: string | undefined;
}

/** Reports its text when the user has stopped typing for a moment. */
export function FilterInput({ label, placeholder, icon, value, onChange, className }: Props) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  if (known !== value) {
    setKnown(value);
    setTyped(value);
  }
  const settle = useDebouncedCallback((text: string) => onChange(text.trim()), 250);
  return (
    <TextInput
      type="search"
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Icon name={icon} size={14} />}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        settle(event.currentTarget.value);
      }}
      className={className}
    />
  );
}
