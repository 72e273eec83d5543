# Functions of the recipes, which read this file. Finished runs and scores are kept: an interrupted recipe continues with the
# same command.
dir=$1
shift
heed=${HEED:-heed}
seeds=${SEEDS:-1 2 3}

# Train one run, unless it is finished: train FOLDER OPTION …
train() {
    folder=$1
    shift
    [ ! -e "$folder/results.json" ] || { echo "$folder is finished."; return; }
    for checkpoint in "$folder"/checkpoints/last-*.ckpt; do
        [ ! -e "$checkpoint" ] || { set -- "$@" resume=true; break; }
    done
    $heed train "folder='$folder'" "$@"
}

# Print scores and keep them in a file: evaluate FILE ARGUMENT …
evaluate() {
    file=$1
    shift
    [ -e "$file" ] || { $heed evaluate "$@" > "$file.part" && mv "$file.part" "$file"; }
    echo "$file:"
    cat "$file"
}
