import { createTheme, type MantineColorsTuple } from "@mantine/core";

const honey: MantineColorsTuple = [
  "#fff8e8",
  "#feeec8",
  "#fcdc93",
  "#fac85c",
  "#f7b631",
  "#f0a41b",
  "#d98a0b",
  "#b46c09",
  "#8f530c",
  "#6f400d",
];

const compact = { defaultProps: { size: "xs" } };
// The page itself never scrolls, so an open dialog has nothing to lock; Mantine's lock would also
// write a <style> element that the security policy refuses.
const dialog = {
  defaultProps: {
    lockScroll: false,
    transitionProps: { duration: 120 },
    closeButtonProps: { "aria-label": "Close" },
    // Its <header> would count as a banner of the page.
    attributes: { header: { role: "none" } },
  },
};

/** Colours, radii and sizes are CSS variables (styles/mantine.css); this names what they cannot. */
export const theme = createTheme({
  primaryColor: "honey",
  primaryShade: 5,
  autoContrast: true,
  colors: { honey },
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Button: compact,
    TextInput: compact,
    PasswordInput: compact,
    Textarea: compact,
    Select: compact,
    Autocomplete: compact,
    MultiSelect: compact,
    NumberInput: compact,
    Switch: compact,
    Checkbox: compact,
    SegmentedControl: compact,
    ActionIcon: { defaultProps: { variant: "subtle", color: "gray", size: "md" } },
    Modal: dialog,
    Drawer: dialog,
    Tooltip: { defaultProps: { openDelay: 250, withArrow: false, offset: 6 } },
    Menu: { defaultProps: { shadow: "md", transitionProps: { duration: 80 } } },
  },
});
