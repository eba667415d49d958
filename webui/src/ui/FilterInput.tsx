import { TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { Icon, type IconName } from "./Icon";
import { useTyped } from "./useTyped";

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
  const { typed, setTyped, setSent } = useTyped(value);
  const settle = useDebouncedCallback((text: string) => {
    setSent(text.trim());
    onChange(text.trim());
  }, 250);
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
