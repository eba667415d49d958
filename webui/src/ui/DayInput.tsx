import { TextInput, type TextInputProps } from "@mantine/core";
import { useTyped } from "./useTyped";

interface Props extends Pick<TextInputProps, "label" | "aria-label" | "className"> {
  /** As 2026-11-23. */
  value: string | undefined;
  onChange: (day: string | undefined) => void;
}

/** A day. While a year is typed, the browser reports those of its first digits, such as 0002: they
 * are not given out, and a value that follows later does not undo what is typed. */
export function DayInput({ value = "", onChange, ...input }: Props) {
  const { typed, setTyped, setSent } = useTyped(value);
  return (
    <TextInput
      {...input}
      type="date"
      value={typed}
      onChange={(event) => {
        const day = event.currentTarget.value;
        setTyped(day);
        if (day.startsWith("0")) return;
        setSent(day);
        onChange(day || undefined);
      }}
    />
  );
}
