/** Sampling rate from a batch size and a number of records. */

const MOST_RECORDS = 1e9;

/**
 * @param {string} batch as typed @param {string} records as typed
 * @returns {{rate: number | null, message: string}} `message`: error, "" if valid
 */
export function rateOf(batch, records) {
  const message = fault("Batch", batch) || fault("Records", records) || tooMany(Number(batch), Number(records));
  return {rate: message ? null : Number((Number(batch) / Number(records)).toPrecision(6)), message};
}

function fault(label, text) {
  if (text.trim() === "") return `${label} must be given.`;
  const number = Number(text);
  if (!Number.isFinite(number)) return `${label} must be a number, got '${text}'.${hint(text)}`;
  return number > 0 ? "" : `${label} must be greater than 0, got ${text}.`;
}

function hint(text) {
  return /^\d*,\d+$/.test(text) ? ` Use a dot: ${text.replace(",", ".")}.` : "";
}

function tooMany(batch, records) {
  if (records > MOST_RECORDS) return `Records must be at most ${MOST_RECORDS}, got ${records}.`;
  return batch > records ? `Batch must be at most the ${records} records, got ${batch}.` : "";
}
