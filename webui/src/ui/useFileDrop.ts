import { useState, type DragEvent } from "react";

/** What makes an element a place to drop things on; `data-over` while something is over it. */
export function useFileDrop(take: (dropped: DataTransfer) => void) {
  const [over, setOver] = useState(false);
  return {
    "data-over": over || undefined,
    onDragOver: (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      take(event.dataTransfer);
    },
  };
}
