import { Autocomplete, type ComboboxItem } from "@mantine/core";
import type { ImageSave } from "@/api/imageSaves";
import type { Image } from "@/api/types";
import { contentsOf, driverProblem } from "@/features/images/labels";
import css from "./ImagePicker.module.css";

interface Props {
  title: string | undefined;
  /** Those of the catalogue that the virtual cluster may use. */
  images: Image[];
  /** Those that the user saved from containers, the newest first. */
  saved: ImageSave[];
  /** Why there is no catalogue to choose from. */
  unread: string | null;
  value: string;
  onChange: (image: string) => void;
}

/** Any image may be typed; those of the catalogue say what is in them, and whether a node has the
 * driver for them. */
export function ImagePicker({ title, images, saved, unread, value, onChange }: Props) {
  const known = new Map(images.map((image) => [image.name, image]));
  const mine = new Map([...saved].reverse().map((save) => [save.reference, save]));
  const names = images.map(({ name }) => name);
  const references = [...mine.keys()].filter((one) => !known.has(one)).reverse();
  const chosen = known.get(value);
  const problem = chosen && driverProblem(chosen);
  return (
    <div>
      <Autocomplete
        label="Image"
        title={title}
        data={
          references.length > 0
            ? [
                { group: "Catalogue", items: names },
                { group: "Saved by you", items: references },
              ]
            : names
        }
        error={unread}
        value={value}
        onChange={onChange}
        // The list is short: what is chosen already does not hide the others.
        filter={({ options, search }) => {
          const isShown = ({ value: name }: ComboboxItem) =>
            known.has(search) || mine.has(search) || matches(name, known.get(name), search);
          return options
            .map((one) => ("group" in one ? { ...one, items: one.items.filter(isShown) } : one))
            .filter((one) => ("group" in one ? one.items.length > 0 : isShown(one)));
        }}
        renderOption={({ option }) => {
          const save = mine.get(option.value);
          return save && !known.has(option.value) ? (
            <SavedOption save={save} />
          ) : (
            <ImageOption image={known.get(option.value)} />
          );
        }}
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

function SavedOption({ save }: { save: ImageSave }) {
  const from = save.job_name ? ` of ${save.job_name}` : "";
  return (
    <div className={css.option}>
      <b>{save.reference}</b>
      <div className="dim">
        Saved from {save.task}
        {from}
      </div>
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

function matches(name: string, image: Image | undefined, search: string): boolean {
  const text = image
    ? `${image.name} ${image.reference} ${image.description} ${image.framework}`
    : name;
  return text.toLowerCase().includes(search.toLowerCase().trim());
}
