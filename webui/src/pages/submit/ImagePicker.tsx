import { Autocomplete } from "@mantine/core";
import type { Image } from "@/api/types";
import { contentsOf, driverProblem } from "@/features/images/labels";
import css from "./ImagePicker.module.css";

interface Props {
  title: string | undefined;
  /** Those of the catalogue that the virtual cluster may use. */
  images: Image[];
  value: string;
  onChange: (image: string) => void;
}

/** Any image may be typed; those of the catalogue say what is in them, and whether a node has the
 * driver for them. */
export function ImagePicker({ title, images, value, onChange }: Props) {
  const known = new Map(images.map((image) => [image.name, image]));
  const chosen = known.get(value);
  const problem = chosen && driverProblem(chosen);
  return (
    <div>
      <Autocomplete
        label="Image"
        title={title}
        data={images.map(({ name }) => name)}
        value={value}
        onChange={onChange}
        // The list is short: what is chosen already does not hide the others.
        filter={({ options, search }) =>
          known.has(search)
            ? options
            : options.filter((one) => "value" in one && matches(known.get(one.value), search))
        }
        renderOption={({ option }) => <ImageOption image={known.get(option.value)} />}
        maxDropdownHeight={320}
      />
      {chosen ? (
        <p className={css.note}>
          {[chosen.description, contentsOf(chosen)].filter(Boolean).join(". ")}
        </p>
      ) : null}
      {problem ? (
        <p className={css.problem} role="alert">
          {problem} Jobs with GPUs are refused.
        </p>
      ) : null}
    </div>
  );
}

function ImageOption({ image }: { image: Image | undefined }) {
  if (!image) return null;
  const problem = driverProblem(image);
  return (
    <div className={css.option}>
      <b>{image.name}</b> <span className="dim">{contentsOf(image)}</span>
      {image.description ? <div className="dim">{image.description}</div> : null}
      {problem ? <div className={css.problem}>{problem}</div> : null}
    </div>
  );
}

function matches(image: Image | undefined, search: string): boolean {
  const text = image
    ? `${image.name} ${image.reference} ${image.description} ${image.framework}`
    : "";
  return text.toLowerCase().includes(search.toLowerCase().trim());
}
